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

const (
	// interval is the least time between two writes of the row.
	interval = time.Second
	// rowTimeout bounds a statement that touches one row. Beyond it the connection is as good as lost.
	rowTimeout = 15 * time.Second
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

// count counts every item as the exported snapshot sees it, however long that takes.
func (b *Book) count(ctx context.Context, snapshot string) (machine.Counts, error) {
	counts := machine.Counts{}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, b.db, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+escape(snapshot)+"'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
SELECT set_config(name, '0', true) FROM pg_catalog.pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')`); err != nil {
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
		switch err := b.Flush(ctx); {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, ErrSuperseded):
			// Trying again is of no use before the stream has moved on, if it ever does.
			b.log.Warn("the checkpoint was not written", "error", err)
		default:
			b.log.Error("the checkpoint was not written; the server keeps the log meanwhile, and weir tries again", "error", err)
			b.wake()
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
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	if err := b.writing.take(ctx); err != nil {
		return fmt.Errorf("checkpoint: write: wait for the one before: %w", err)
	}
	defer b.writing.pass()
	b.mu.Lock()
	v := View{Source: b.source, At: b.at, Counts: b.counts.Clone(), Inexact: b.inexact != 0}
	amended := b.amended
	b.amended = false
	behind := b.at > b.confirmed
	b.mu.Unlock()
	if !behind && !amended {
		return nil
	}
	err := b.write(ctx, v)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		b.amended = b.amended || amended
	case b.source == v.Source:
		b.confirmed = max(b.confirmed, v.At)
		b.written = time.Now()
	}
	return err
}

func (b *Book) write(ctx context.Context, v View) error {
	text, err := json.Marshal(v.Counts.Nested())
	if err != nil {
		return fmt.Errorf("checkpoint: write: %w", err)
	}
	tag, err := b.db.Exec(ctx, `
UPDATE weir.checkpoints
   SET lsn = $4::text::pg_lsn,
       counts = $5::text::jsonb,
       inexact = $6,
       updated_at = clock_timestamp()
 WHERE slot = $1
   AND system_identifier = $2
   AND timeline = $3
   AND lsn <= $4::text::pg_lsn`, v.Source.Slot, v.Source.SystemID, v.Source.Timeline, v.At.String(), string(text), v.Inexact)
	if err != nil {
		return fmt.Errorf("checkpoint: write: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrSuperseded
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
