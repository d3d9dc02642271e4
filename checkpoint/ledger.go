package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// Load reads the checkpoint of a slot, for whoever looks from outside. found is false where there is none.
func Load(ctx context.Context, db machine.DB, slot string) (v View, found bool, err error) {
	rows, err := db.Query(ctx, `
SELECT system_identifier, timeline, lsn::text, counts::text, inexact, updated_at FROM weir.checkpoints WHERE slot = $1`, slot)
	if err != nil {
		return View{}, false, fmt.Errorf("checkpoint: load: %w", err)
	}
	v, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (View, error) {
		v := View{Source: replication.Source{Slot: slot}}
		var lsn, counts string
		if err := row.Scan(&v.Source.SystemID, &v.Source.Timeline, &lsn, &counts, &v.Inexact, &v.Written); err != nil {
			return View{}, err
		}
		if v.At, err = pglogrepl.ParseLSN(lsn); err != nil {
			return View{}, err
		}
		v.Confirmed = v.At
		v.Counts, err = parseCounts(counts)
		return v, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return View{}, false, nil
	}
	if err != nil {
		return View{}, false, fmt.Errorf("checkpoint: load: %w", err)
	}
	return v, true, nil
}

func parseCounts(text string) (machine.Counts, error) {
	var nested map[string]map[machine.State]int64
	if err := json.Unmarshal([]byte(text), &nested); err != nil {
		return nil, fmt.Errorf("the counts are not {exporter: {state: items}}: delete the row of weir.checkpoints to count anew: %w", err)
	}
	counts := machine.Counts{}
	for exporter, states := range nested {
		for state, n := range states {
			if state.Index() < 0 {
				return nil, fmt.Errorf("the counts of exporter %q name the state %q, which this weir doesn't know: run the version that wrote it, or delete the row of weir.checkpoints to count anew", exporter, state)
			}
			counts.Add(exporter, state, n)
		}
	}
	return counts, nil
}

// Resume implements replication.Ledger: it takes up the row of the slot, if it is of the same log.
func (b *Book) Resume(ctx context.Context, source replication.Source) (replication.LSN, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	v, found, err := Load(ctx, b.db, source.Slot)
	if err != nil {
		return 0, err
	}
	if !found || v.Source != source {
		return 0, nil
	}
	b.take(v)
	return v.At, nil
}

// Rebase implements replication.Ledger: it counts at the snapshot of a new slot.
func (b *Book) Rebase(ctx context.Context, source replication.Source, at replication.LSN, snapshot string) error {
	counts, err := b.count(ctx, snapshot)
	if err != nil {
		return fmt.Errorf("checkpoint: count: %w", err)
	}
	text, err := json.Marshal(counts.Nested())
	if err != nil {
		return fmt.Errorf("checkpoint: count: %w", err)
	}
	_, err = b.db.Exec(ctx, `
INSERT INTO weir.checkpoints (slot, system_identifier, timeline, lsn, counts)
VALUES ($1, $2, $3, $4::text::pg_lsn, $5::text::jsonb)
    ON CONFLICT (slot) DO UPDATE
   SET system_identifier = excluded.system_identifier,
       timeline = excluded.timeline,
       lsn = excluded.lsn,
       counts = excluded.counts,
       inexact = excluded.inexact,
       updated_at = clock_timestamp()`, source.Slot, source.SystemID, source.Timeline, at.String(), string(text))
	if err != nil {
		return fmt.Errorf("checkpoint: rebase: %w", err)
	}
	b.take(View{Source: source, At: at, Counts: counts})
	return nil
}

// take makes the book go on from a durable row.
func (b *Book) take(v View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.source, b.at, b.confirmed, b.counts = v.Source, v.At, v.At, v.Counts
	b.inexact, b.amended = 0, false
	if v.Inexact {
		b.inexact = v.At
	}
	b.written = time.Now()
	b.trail.cut(v.At)
	b.epoch++
}
