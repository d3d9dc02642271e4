package outbox

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
)

// Receipt is where an item is.
type Receipt struct {
	ID         int64  // weir.outbox.id
	Identifier string // what the provider will deduplicate on
	Existing   bool   // the item was there already: from an earlier transaction, or earlier in the same one
}

// Enqueue writes items to the outbox as part of tx: they are sent once it commits, and were never there if
// it rolls back. The receipts are in the order of the items, and their ids rise in it where they are new.
//
// An item that is there already is left as it is. Where its payload differs, the error is a
// *PayloadMismatchError; the receipts are complete then, and tx is usable. With any other error there
// are no receipts: after one that wraps a *FieldError nothing was sent to Postgres; after one that
// Postgres gave, it has aborted tx.
func Enqueue(ctx context.Context, tx pgx.Tx, items ...Item) ([]Receipt, error) {
	return enqueue(items, func(given string, each func(scan) error) error {
		rows, err := tx.Query(ctx, insert, given)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := each(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// EnqueueSQL is Enqueue for database/sql, with any Postgres driver.
func EnqueueSQL(ctx context.Context, tx *sql.Tx, items ...Item) ([]Receipt, error) {
	return enqueue(items, func(given string, each func(scan) error) error {
		rows, err := tx.QueryContext(ctx, insert, given)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := each(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}
