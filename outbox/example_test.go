package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/outbox"
)

// A request handler records what it did and what it will bill for, in one transaction.
func ExampleEnqueue() {
	record := func(ctx context.Context, pool *pgxpool.Pool, requestID string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO requests (id) VALUES ($1)`, requestID); err != nil {
				return err
			}
			_, err := outbox.Enqueue(ctx, tx, outbox.Item{
				TenantKey:      "t_northwind",
				SubjectRef:     "usage:request:" + requestID,
				Mode:           "live",
				MappingVersion: "2025-01",
				Payload: map[string]string{
					"customer":  "cus_NffrFeUfNV2Hib",
					"meter":     "api_requests",
					"value":     "1",
					"timestamp": "2025-01-31T12:00:00Z",
				},
			})
			return err
		})
	}
	_ = record
}

// The same with database/sql. What was enqueued earlier with another payload becomes a correction: an item
// of its own with the difference.
func ExampleEnqueueSQL() {
	bill := func(ctx context.Context, tx *sql.Tx, item outbox.Item, difference any) error {
		_, err := outbox.EnqueueSQL(ctx, tx, item)
		if errors.Is(err, outbox.ErrPayloadMismatch) {
			item.SubjectKind = "correction"
			item.SubjectRef += ":1"
			item.Payload = difference
			_, err = outbox.EnqueueSQL(ctx, tx, item)
		}
		return err
	}
	_ = bill
}

// The identifier is known before anything is written, and is the one that the provider sees.
func ExampleIdentifier() {
	fmt.Println(outbox.Identifier(outbox.Item{
		TenantKey:      "t_northwind",
		SubjectRef:     "usage:request:1",
		Mode:           "live",
		MappingVersion: "2025-01",
	}))
	// Output: weir_dad0a064e2791d3fdcda10f22c384665df92c882be54bb4b12e47919b20f7dce
}
