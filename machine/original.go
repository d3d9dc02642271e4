package machine

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Original is where an item stands that a correction names.
type Original struct {
	State    State
	Exporter string
	Account  string // destination_account
	Mode     string
	// Age is how long ago, by the database's clock, the provider can have got it first: since its first attempt, which
	// may have arrived though a later one was the first to be answered. 0 where there was none.
	Age time.Duration
}

const originalSQL = `
SELECT d.state, d.exporter, o.destination_account, o.mode,
       coalesce(extract(epoch FROM clock_timestamp() - coalesce(d.first_attempt_at, d.accepted_at)), 0)::float8
  FROM weir.outbox o
  JOIN weir.deliveries d ON d.id = o.id
 WHERE o.identity = $1`

// Original finds an item by its identifier. Errors: ErrNotFound, also where identifier isn't one of weir's.
func (s *Store) Original(ctx context.Context, identifier string) (Original, error) {
	identity, ok := ParseIdentifier(identifier)
	if !ok {
		return Original{}, fmt.Errorf("original %q: %w", identifier, ErrNotFound)
	}
	rows, err := s.db.Query(ctx, originalSQL, identity[:])
	if err != nil {
		return Original{}, fmt.Errorf("original: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Original, err error) {
		var age float64
		err = row.Scan(&o.State, &o.Exporter, &o.Account, &o.Mode, &age)
		o.Age = time.Duration(age * float64(time.Second))
		return o, err
	})
	switch {
	case err != nil:
		return Original{}, fmt.Errorf("original: %w", err)
	case len(found) == 0:
		return Original{}, fmt.Errorf("original %s: %w", identifier, ErrNotFound)
	}
	return found[0], nil
}

// ParseIdentifier is the identity behind an identifier; false where it isn't one of weir's.
func ParseIdentifier(identifier string) (identity [32]byte, ok bool) {
	digits, ok := strings.CutPrefix(identifier, "weir_")
	if !ok || len(digits) != hex.EncodedLen(len(identity)) || strings.ToLower(digits) != digits {
		return identity, false
	}
	_, err := hex.Decode(identity[:], []byte(digits))
	return identity, err == nil
}
