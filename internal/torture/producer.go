package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/outbox"
)

// errRollback rolls a transaction back, as its plan says.
var errRollback = errors.New("rolled back as planned")

// produce commits the transactions of one producer. Like any producer it repeats what failed: the identity
// makes that harmless.
func (w *world) produce(ctx context.Context, line []Transaction) error {
	for i := range line {
		if err := sleep(ctx, line[i].Pause); err != nil {
			return err
		}
		if err := w.commit(ctx, &line[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) commit(ctx context.Context, tx *Transaction) error {
	for failures := 0; ; failures++ {
		err := pgx.BeginFunc(ctx, w.db(), func(t pgx.Tx) error { return tx.run(ctx, t) })
		switch {
		case err == nil:
			w.truth.commit(tx.Items)
			w.truth.undo(tx.Undone)
			return nil
		case errors.Is(err, errRollback):
			w.truth.undo(tx.Items)
			w.truth.undo(tx.Undone)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, outbox.ErrPayloadMismatch):
			return fmt.Errorf("the plan has one item with two payloads: %w", err)
		}
		if failures == 0 {
			w.journal.note("a producer tries again: %v", err)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (tx *Transaction) run(ctx context.Context, t pgx.Tx) error {
	for items := range slices.Chunk(tx.Items, 2000) {
		if err := enqueue(ctx, t, items); err != nil {
			return err
		}
	}
	if tx.Undone != nil {
		err := pgx.BeginFunc(ctx, t, func(savepoint pgx.Tx) error {
			if err := enqueue(ctx, savepoint, tx.Undone); err != nil {
				return err
			}
			return errRollback
		})
		if !errors.Is(err, errRollback) {
			return err
		}
	}
	if err := sleep(ctx, tx.Linger); err != nil {
		return err
	}
	if tx.Rollback {
		return errRollback
	}
	return nil
}

func enqueue(ctx context.Context, t pgx.Tx, items []Item) error {
	made := make([]outbox.Item, len(items))
	for i := range items {
		made[i] = items[i].outbox()
	}
	_, err := outbox.Enqueue(ctx, t, made...)
	return err
}

// enqueueOne commits one sound item for a strike to aim at, and answers its identifier and a position in the
// log after its commit.
func (w *world) enqueueOne(ctx context.Context, it Item) (lsn string, err error) {
	if err := w.commit(ctx, &Transaction{Items: []Item{it}}); err != nil {
		return "", err
	}
	err = w.db().QueryRow(ctx, `SELECT pg_current_wal_lsn()::text`).Scan(&lsn)
	return lsn, err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
