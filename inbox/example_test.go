package inbox_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/inbox"
)

// A webhook handler that pays out once, however often the event is delivered.
func ExampleFirst() {
	handle := func(ctx context.Context, pool *pgxpool.Pool, eventID, invoice string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			first, err := inbox.First(ctx, tx, "invoices", eventID)
			if err != nil || !first {
				return err // nil: it was handled before; answer 200 all the same
			}
			_, err = tx.Exec(ctx, `UPDATE invoices SET paid = true WHERE id = $1`, invoice)
			return err
		})
	}
	_ = handle
}
