package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/shopspring/decimal"

	"github.com/weir-relay/weir/machine"
)

// DB is what the reconciler asks of a database: a *pgxpool.Pool.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// row is an item, as far as buckets need it.
type row struct {
	item     machine.Item
	state    machine.State
	accepted time.Time // zero where it isn't
	since    time.Time // next_attempt_at: of an uncertain item, when it came to be so, or a little later
}

const columns = `d.id, d.state, d.lease_token, d.accepted_at, d.next_attempt_at, o.exporter, o.subject_kind, o.subject_ref,
       o.destination_account, o.mode, o.mapping_version, o.identity, o.payload`

// Found by deliveries_awaiting_idx, which holds nothing else but what was rejected after it had been accepted.
const awaitingSQL = `
SELECT ` + columns + `
  FROM weir.deliveries d
  JOIN weir.outbox o ON o.id = d.id
 WHERE d.accepted_at >= $2
   AND d.accepted_at IS NOT NULL
   AND d.confirmed_at IS NULL
   AND d.state = 'accepted'
   AND d.exporter = $1`

// An item that was never attempted can't be in anybody's books.
const travellingSQL = `
SELECT ` + columns + `
  FROM weir.deliveries d
  JOIN weir.outbox o ON o.id = d.id
 WHERE d.open
   AND d.exporter = $1
   AND d.first_attempt_at IS NOT NULL`

const doubtfulSQL = `
SELECT ` + columns + `
  FROM weir.deliveries d
  JOIN weir.outbox o ON o.id = d.id
 WHERE d.attention
   AND d.exporter = $1
   AND d.state IN ('uncertain', 'rejected')
   AND d.first_attempt_at IS NOT NULL`

const byIDSQL = `
SELECT ` + columns + `
  FROM weir.deliveries d
  JOIN weir.outbox o ON o.id = d.id
 WHERE d.id = ANY ($1::bigint[])`

const byIdentitySQL = `
SELECT ` + columns + `
  FROM weir.outbox o
  JOIN weir.deliveries d ON d.id = o.id
 WHERE o.identity = ANY ($1::bytea[])`

// each reads the items of a statement, one at a time.
func (r *Reconciler) each(ctx context.Context, do func(*row) error, sql string, args ...any) error {
	rows, err := r.config.DB.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var v row
		var accepted *time.Time
		var identity []byte
		it := &v.item
		err := rows.Scan(&it.ID, &v.state, &it.Token, &accepted, &v.since, &it.Exporter, &it.SubjectKind, &it.SubjectRef,
			&it.Account, &it.Mode, &it.MappingVersion, &identity, (*[]byte)(&it.Payload))
		if err != nil {
			return err
		}
		copy(it.Identity[:], identity)
		if accepted != nil {
			v.accepted = *accepted
		}
		if err := do(&v); err != nil {
			return err
		}
	}
	return rows.Err()
}

// now is the database's clock: settle delays are compared with what it wrote.
func (r *Reconciler) now(ctx context.Context) (now time.Time, err error) {
	rows, err := r.config.DB.Query(ctx, `SELECT clock_timestamp()`)
	if err != nil {
		return now, fmt.Errorf("ask the time: %w", err)
	}
	now, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
	if err != nil {
		return now, fmt.Errorf("ask the time: %w", err)
	}
	return now.UTC(), nil
}

const confirmedSQL = `
SELECT hour, events, value::text, last_at, last_value::text
  FROM weir.buckets
 WHERE exporter = $1
   AND mode = $2
   AND meter = $3
   AND customer = $4
   AND hour >= $5
   AND hour < $6`

// confirmed reads what earlier passes have confirmed of a series.
func (r *Reconciler) confirmed(ctx context.Context, s series, from, to time.Time) (map[int64]tally, error) {
	rows, err := r.config.DB.Query(ctx, confirmedSQL, r.config.Exporter, s.mode, s.meter, s.customer, from, to)
	if err != nil {
		return nil, fmt.Errorf("read buckets: %w", err)
	}
	out := map[int64]tally{}
	var hour time.Time
	var events int64
	var value string
	var lastAt *time.Time
	var lastValue *string
	_, err = pgx.ForEachRow(rows, []any{&hour, &events, &value, &lastAt, &lastValue}, func() error {
		t := tally{events: events}
		var err error
		if t.sum, err = decimal.NewFromString(value); err != nil {
			return err
		}
		if lastAt != nil && lastValue != nil {
			v, err := decimal.NewFromString(*lastValue)
			if err != nil {
				return err
			}
			t.last = []moment{{lastAt.Unix(), v}}
		}
		out[hour.Unix()] = t
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read buckets: %w", err)
	}
	return out, nil
}
