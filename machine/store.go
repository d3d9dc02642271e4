package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is what the store asks of a database: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Store runs the machine's transitions: one method each, one statement each, for many items at once. A
// method answers which items it changed; those it doesn't name were stale. Every duration is compared by
// clock_timestamp() inside the statement: no clock but the database's decides anything.
//
// It has no state and may be used from many goroutines.
type Store struct {
	db     DB
	policy Policy
}

// NewStore makes a store over db.
func NewStore(db DB, policy Policy) *Store { return &Store{db, policy} }

// Policy is the one that the store was made with.
func (s *Store) Policy() Policy { return s.policy }

// refs copies settles sorted by id and splits off their claims, as the two arrays that the statements
// unnest: statements that meet on the same rows then lock them in the same order.
func refs[T interface{ claim() Ref }](settles []T) (sorted []T, ids, tokens []int64) {
	sorted = slices.SortedFunc(slices.Values(settles), func(a, b T) int { return cmp.Compare(a.claim().ID, b.claim().ID) })
	ids = column(sorted, func(t *T) int64 { return (*t).claim().ID })
	tokens = column(sorted, func(t *T) int64 { return (*t).claim().Token })
	return sorted, ids, tokens
}

// column makes the array of one parameter out of settles.
func column[T, V any](settles []T, value func(*T) V) []V {
	out := make([]V, len(settles))
	for i := range settles {
		out[i] = value(&settles[i])
	}
	return out
}

// changed runs a statement that returns the ids of the rows it changed.
func (s *Store) changed(ctx context.Context, step, sql string, args ...any) ([]int64, error) {
	rows, err := s.db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", step, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", step, err)
	}
	return ids, nil
}

// seconds is d as the statements take it: float8 seconds, multiplied with an interval there.
func seconds(d time.Duration) float64 { return d.Seconds() }
