package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"
)

// Drift is a bucket whose numbers differ, as it was last found.
type Drift struct {
	Exporter string `json:"exporter"`
	Key
	Formula    Formula         `json:"formula"`
	Expected   decimal.Decimal `json:"expected"`
	Found      decimal.Decimal `json:"found"`
	Side       string          `json:"side"`
	Why        string          `json:"why,omitempty"`
	Candidates []Candidate     `json:"candidates"`
	Checks     int             `json:"checks"`
	FoundAt    time.Time       `json:"found_at"`
	CheckedAt  time.Time       `json:"checked_at"`
}

// Drifts lists the unresolved drifts, the oldest hours first, at most limit. exporter may be "" for all lanes.
func Drifts(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, exporter string, limit int) ([]Drift, error) {
	rows, err := db.Query(ctx, `
SELECT exporter, mode, meter, customer, hour, formula, expected::text, found::text, side, why, candidates, checks, found_at, checked_at
  FROM weir.drifts
 WHERE resolved_at IS NULL
   AND ($1 = '' OR exporter = $1)
 ORDER BY hour, meter, customer
 LIMIT $2`, exporter, limit)
	if err != nil {
		return nil, fmt.Errorf("list drifts: %w", err)
	}
	drifts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Drift, err error) {
		var expected, found string
		var candidates []byte
		err = row.Scan(&d.Exporter, &d.Mode, &d.Meter, &d.Customer, &d.Hour, &d.Formula, &expected, &found, &d.Side, &d.Why,
			&candidates, &d.Checks, &d.FoundAt, &d.CheckedAt)
		if err != nil {
			return d, err
		}
		d.Hour = d.Hour.UTC()
		if d.Expected, err = decimal.NewFromString(expected); err != nil {
			return d, err
		}
		if d.Found, err = decimal.NewFromString(found); err != nil {
			return d, err
		}
		return d, json.Unmarshal(candidates, &d.Candidates)
	})
	if err != nil {
		return nil, fmt.Errorf("list drifts: %w", err)
	}
	return drifts, nil
}

// revisit adds the buckets of unresolved drifts that are due, also where none of their items waits any more, and answers
// those that aren't due.
func (r *Reconciler) revisit(ctx context.Context, s scope, buckets map[Key]*bucket) (resting map[Key]bool, err error) {
	rows, err := r.config.DB.Query(ctx, `
SELECT mode, meter, customer, hour, checked_at, next_check_at > clock_timestamp()
  FROM weir.drifts
 WHERE resolved_at IS NULL
   AND exporter = $1`, r.config.Exporter)
	if err != nil {
		return nil, fmt.Errorf("read drifts: %w", err)
	}
	resting = map[Key]bool{}
	var k Key
	var checked time.Time
	var rests bool
	_, err = pgx.ForEachRow(rows, []any{&k.Mode, &k.Meter, &k.Customer, &k.Hour, &checked, &rests}, func() error {
		k.Hour = k.Hour.UTC()
		switch {
		case !s.holds(k):
		case rests:
			resting[k] = true
		default:
			// It has had its turn: those that have never been read come first.
			b := at(buckets, k)
			b.oldest, b.drifted = checked, true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read drifts: %w", err)
	}
	return resting, nil
}

func collectOne(rows pgx.Rows) (int64, error) {
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
}
