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

// ErrSuperseded says that the row was counted anew under this book, by a relay that made a new slot. The
// book must not confirm anything; its stream is about to lose its slot. Test with errors.Is.
var ErrSuperseded = errors.New("checkpoint: the row belongs to another slot now, or is ahead of this relay")

// interval is the least time between two writes of the row.
const interval = time.Second

// Load reads the checkpoint of a slot, for whoever looks from outside. found is false where there is none.
func Load(ctx context.Context, db machine.DB, slot string) (v View, found bool, err error) {
	rows, err := db.Query(ctx, `
SELECT system_identifier, timeline, lsn::text, counts::text, updated_at FROM weir.checkpoints WHERE slot = $1`, slot)
	if err != nil {
		return View{}, false, fmt.Errorf("checkpoint: load: %w", err)
	}
	v, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (View, error) {
		v := View{Source: replication.Source{Slot: slot}}
		var lsn, counts string
		if err := row.Scan(&v.Source.SystemID, &v.Source.Timeline, &lsn, &counts, &v.Written); err != nil {
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
		return nil, err
	}
	counts := machine.Counts{}
	for exporter, states := range nested {
		for state, n := range states {
			if state.Index() < 0 {
				return nil, fmt.Errorf("counts of exporter %q name the state %q, which this version doesn't know", exporter, state)
			}
			counts.Add(exporter, state, n)
		}
	}
	return counts, nil
}

// Resume implements replication.Ledger: it takes up the row of the slot, if it is of the same log.
func (b *Book) Resume(ctx context.Context, source replication.Source) (replication.LSN, error) {
	v, found, err := Load(ctx, b.db, source.Slot)
	if err != nil {
		return 0, err
	}
	if !found || v.Source != source {
		return 0, nil
	}
	b.take(source, v.At, v.Counts)
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
       updated_at = clock_timestamp()`, source.Slot, source.SystemID, source.Timeline, at.String(), string(text))
	if err != nil {
		return fmt.Errorf("checkpoint: rebase: %w", err)
	}
	b.take(source, at, counts)
	return nil
}

// take makes the book go on from a durable row.
func (b *Book) take(source replication.Source, at replication.LSN, counts machine.Counts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.source, b.at, b.confirmed, b.counts = source, at, at, counts
	b.inexact = false
	b.written = time.Now()
	b.trail.cut(at)
}

// count counts every item as the exported snapshot sees it.
func (b *Book) count(ctx context.Context, snapshot string) (machine.Counts, error) {
	counts := machine.Counts{}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, b.db, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+escape(snapshot)+"'"); err != nil {
			return err
		}
		return Count(ctx, tx, counts)
	})
	return counts, err
}

// Count adds every item that tx sees to counts. It reads the whole table.
func Count(ctx context.Context, tx pgx.Tx, counts machine.Counts) error {
	if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = on"); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `SELECT exporter, state, count(*) FROM weir.deliveries GROUP BY exporter, state`)
	if err != nil {
		return err
	}
	var exporter string
	var state machine.State
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&exporter, &state, &n}, func() error {
		counts.Add(exporter, state, n)
		return nil
	})
	return err
}

// Run writes the row after transactions, at most once a second, until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.due:
		}
		if err := b.Flush(ctx); err != nil && ctx.Err() == nil {
			b.log.Error("the checkpoint was not written; the server keeps the log meanwhile, and weir tries again", "error", err)
			b.mu.Lock()
			b.wake()
			b.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(b.interval):
		}
	}
}

// Flush writes the row now, and lets the server know up to there. The write is fenced: it changes the row of
// its own log only, and only forward.
func (b *Book) Flush(ctx context.Context) error {
	b.mu.Lock()
	source, at, counts := b.source, b.at, b.counts.Clone()
	behind := at > b.confirmed
	b.mu.Unlock()
	if !behind {
		return nil
	}
	text, err := json.Marshal(counts.Nested())
	if err != nil {
		return fmt.Errorf("checkpoint: write: %w", err)
	}
	tag, err := b.db.Exec(ctx, `
UPDATE weir.checkpoints
   SET lsn = $4::text::pg_lsn,
       counts = $5::text::jsonb,
       updated_at = clock_timestamp()
 WHERE slot = $1
   AND system_identifier = $2
   AND timeline = $3
   AND lsn <= $4::text::pg_lsn`, source.Slot, source.SystemID, source.Timeline, at.String(), string(text))
	if err != nil {
		return fmt.Errorf("checkpoint: write: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrSuperseded
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.source == source {
		b.confirmed = max(b.confirmed, at)
		b.written = time.Now()
	}
	return nil
}

func escape(literal string) string {
	out := make([]byte, 0, len(literal))
	for i := range len(literal) {
		if literal[i] == '\'' {
			out = append(out, '\'')
		}
		out = append(out, literal[i])
	}
	return string(out)
}
