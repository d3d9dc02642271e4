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
	if err != nil {
		return nil, fmt.Errorf("look: %w", err)
	}
	sights, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Sight, error) {
		var v Sight
		var due float64
		err := row.Scan(&v.ID, &v.State, &due)
		v.DueIn = time.Duration(due * float64(time.Second))
		return v, err
	})
	if err != nil {
		return nil, fmt.Errorf("look: %w", err)
	}
	return sights, nil
}
