package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Sight is what Look finds of an item.
type Sight struct {
	ID    int64
	State State
	// DueIn is how long it takes, by the database's clock, until the item can be claimed: 0 or less when
	// it can be now. It has a meaning for open items only.
	DueIn time.Duration
}

// Look answers where items stand that a claim did not return. An id that is missing from the answer is
// not visible yet, or gone.
func (s *Store) Look(ctx context.Context, ids []int64) ([]Sight, error) {
	rows, err := s.db.Query(ctx, `
SELECT id, state,
       extract(epoch FROM CASE state WHEN 'leased' THEN lease_expires_at ELSE next_attempt_at END - clock_timestamp())::float8
  FROM weir.deliveries
 WHERE id = ANY ($1::bigint[])`, ids)
	return collectSights("look", rows, err)
}

func collectSights(step string, rows pgx.Rows, err error) ([]Sight, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", step, err)
	}
	sights, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Sight, error) {
		var v Sight
		var due float64
		err := row.Scan(&v.ID, &v.State, &due)
		v.DueIn = time.Duration(due * float64(time.Second))
		return v, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", step, err)
	}
	return sights, nil
}

// Running answers which transactions may still hide rows: those that had begun to write have an id below next,
// and of these all below xmin have ended. A change that the log has shown may stay invisible while its
// transaction is still on its way through the server, with synchronous replication for long (lesson 2).
//
// A snapshot's own xmax would not do for next: it is one past the highest id that has ended, and a transaction
// that is still on its way may well be above it. So Running takes an id, which costs one small record of log.
func (s *Store) Running(ctx context.Context) (xmin, next uint64, err error) {
	rows, err := s.db.Query(ctx, `
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_current_xact_id()::text::bigint`)
	if err != nil {
		return 0, 0, fmt.Errorf("running transactions: %w", err)
	}
	_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(&xmin, &next)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("running transactions: %w", err)
	}
	return xmin, next, nil
}

// Upcoming answers the open items of exporter that are due soonest, at most limit, soonest first: what no
// change in the log will announce to a relay that has just come.
func (s *Store) Upcoming(ctx context.Context, exporter string, limit int) ([]Sight, error) {
	rows, err := s.db.Query(ctx, `
SELECT id, state,
       extract(epoch FROM CASE state WHEN 'leased' THEN lease_expires_at ELSE next_attempt_at END - clock_timestamp())::float8
  FROM weir.deliveries
 WHERE exporter = $1
   AND open
 ORDER BY CASE state WHEN 'leased' THEN lease_expires_at ELSE next_attempt_at END
 LIMIT $2`, exporter, limit)
	return collectSights("upcoming", rows, err)
}
