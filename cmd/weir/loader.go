package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/outbox"
)

// sink takes checked records.
type sink interface {
	put(ctx context.Context, batch []record) error
}

// discard counts records that are only checked.
type discard struct{ *tally }

func (d discard) put(_ context.Context, batch []record) error {
	d.Valid += int64(len(batch))
	return nil
}

// loader puts records into the outbox.
type loader struct {
	db *pgxpool.Pool
	*tally
}

// put enqueues a batch in one transaction. One bad record would take the others with it, so a batch that
// fails because of its data is halved until the bad ones stand alone.
func (l *loader) put(ctx context.Context, batch []record) error {
	err := l.attempt(ctx, batch)
	switch {
	case err == nil:
		return nil
	case !aboutData(err):
		return err
	case len(batch) == 1:
		l.bad(batch[0], err)
		return nil
	}
	half := len(batch) / 2
	if err := l.put(ctx, batch[:half]); err != nil {
		return err
	}
	return l.put(ctx, batch[half:])
}

// attempt repeats a transaction that lost against another one.
func (l *loader) attempt(ctx context.Context, batch []record) error {
	const attempts = 5
	for n := 1; ; n++ {
		err := l.transact(ctx, batch)
		var pg *pgconn.PgError
		if n == attempts || !errors.As(err, &pg) || pg.Code != "40001" && pg.Code != "40P01" {
			return err
		}
	}
}

func (l *loader) transact(ctx context.Context, batch []record) error {
	tx, err := l.db.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after Commit there is nothing to roll back
	items := make([]outbox.Item, len(batch))
	for i := range batch {
		items[i] = batch[i].item
	}
	receipts, err := outbox.Enqueue(ctx, tx, items...)
	var mismatch *outbox.PayloadMismatchError
	if err != nil && !errors.As(err, &mismatch) {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	l.landed(batch, receipts, mismatch)
	return nil
}

// landed counts what a committed transaction did.
func (t *tally) landed(batch []record, receipts []outbox.Receipt, mismatch *outbox.PayloadMismatchError) {
	for _, r := range receipts {
		if r.Existing {
			t.Existing++
		} else {
			t.Inserted++
		}
	}
	if mismatch != nil {
		for _, m := range mismatch.Items {
			t.Existing--
			t.Mismatched++
			t.report(batch[m.Index], fmt.Sprintf("is there already as item %d, with another payload, which stands: "+
				"a changed payload needs a subject_ref of its own; send the difference as a correction", m.ID))
		}
	}
	t.upTo = batch[len(batch)-1].line
}

// aboutData reports whether err is about the records, rather than about the database: data exceptions,
// violated constraints, exceeded limits of the program.
func aboutData(err error) bool {
	var field *outbox.FieldError
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		class := pg.Code[:2]
		return class == "22" || class == "23" || class == "54"
	}
	return errors.As(err, &field)
}
