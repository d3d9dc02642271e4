package bench

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The lanes of the items: who is to take them.
const (
	weirLane      = "bench"
	referenceLane = "reference"
)

// customers is how many customers the items are spread over. Stripe allows each of them one call in flight.
const customers = 1000

// payload is an item's as SQL, of customer number n.
const payload = `jsonb_build_object('customer', 'cus_' || (%s) %% 1000, 'meter', 'requests', 'value', '1', 'timestamp', extract(epoch FROM now())::bigint)`

// enqueue commits n items of a lane at once. name tells them from those of other calls.
func (r *rig) enqueue(ctx context.Context, lane, name string, n int) error {
	_, err := r.pool.Exec(ctx, `
INSERT INTO weir.outbox (tenant_key, subject_ref, exporter, mode, mapping_version, payload)
SELECT 'bench', $2 || ':' || g, $1, 'test', '1', `+fmt.Sprintf(payload, "g")+`
  FROM generate_series(1, $3::int) g`, lane, name, n)
	if err != nil {
		return fmt.Errorf("enqueue %d items: %w", n, err)
	}
	return nil
}

// vacuum does what autovacuum would do some time later, in the middle of a measurement.
func (r *rig) vacuum(ctx context.Context) error {
	for _, table := range []string{"weir.outbox", "weir.deliveries"} {
		if _, err := r.pool.Exec(ctx, "VACUUM (ANALYZE) "+table); err != nil {
			return fmt.Errorf("vacuum %s: %w", table, err)
		}
	}
	return nil
}

// addSettled puts n accepted items into the tables. The trigger that would stage them as pending is left
// out; the rows are what it and an accept would have made.
func (r *rig) addSettled(ctx context.Context, n int) error {
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`ALTER TABLE weir.outbox DISABLE TRIGGER stage`,
			fmt.Sprintf(`
INSERT INTO weir.outbox (tenant_key, subject_ref, exporter, mode, mapping_version, payload)
SELECT 'settled', 'settled:' || txid_current() || ':' || g, '%s', 'test', '1', `+payload+`
  FROM generate_series(1, %d) g`, weirLane, "g", n),
			`
INSERT INTO weir.deliveries (id, exporter, state, from_state, lease_token, attempts, first_attempt_at, accepted_at)
SELECT o.id, o.exporter, 'accepted', 'leased', 1, 1, o.inserted_at, o.inserted_at
  FROM weir.outbox o
 WHERE o.tenant_key = 'settled'
   AND NOT EXISTS (SELECT FROM weir.deliveries d WHERE d.id = o.id)`,
			`ALTER TABLE weir.outbox ENABLE TRIGGER stage`,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add %d settled items: %w", n, err)
	}
	return r.vacuum(ctx)
}

// openItems says how many items of a lane are not settled.
func (r *rig) openItems(ctx context.Context, lane string) (n int, err error) {
	err = r.pool.QueryRow(ctx, `SELECT count(*) FROM weir.deliveries WHERE open AND exporter = $1`, lane).Scan(&n)
	return n, err
}
