package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
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
