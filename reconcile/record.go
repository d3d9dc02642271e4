package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/machine"
)

// record writes what was found: agreeing buckets are confirmed, differing ones noted. It answers how many items it has
// confirmed.
func (r *Reconciler) record(ctx context.Context, findings []Finding) (confirmed int, err error) {
	for i := range findings {
		f := &findings[i]
		switch f.Standing {
		case Agrees:
			n, err := r.confirm(ctx, f)
			confirmed += n
			if err != nil {
				return confirmed, err
			}
		case Differs, Unclear:
			if err := r.note(ctx, f); err != nil {
				return confirmed, err
			}
		}
	}
	return confirmed, nil
}

// The bucket must still hold what was compared: of two passes at once, one finds that it doesn't.
const bookSQL = `
INSERT INTO weir.buckets AS b (exporter, mode, meter, customer, hour, events, value, last_at, last_value)
VALUES ($1, $2, $3, $4, $5, $6, $7::text::numeric, $8, $9::text::numeric)
    ON CONFLICT (exporter, mode, meter, customer, hour) DO UPDATE
   SET events = b.events + excluded.events,
       value = b.value + excluded.value,
       last_at = excluded.last_at,
       last_value = excluded.last_value,
       updated_at = clock_timestamp()
 WHERE b.events = $10
   AND b.value = $11::text::numeric`

const resolveSQL = `
UPDATE weir.drifts
   SET resolved_at = clock_timestamp(),
       checked_at = clock_timestamp()
 WHERE exporter = $1
   AND mode = $2
   AND meter = $3
   AND customer = $4
   AND hour = $5
   AND resolved_at IS NULL`

// errMoved undoes a confirmation: the bucket isn't as it was compared. The next pass compares it again.
var errMoved = errors.New("the bucket has changed since it was compared")

// confirm confirms the items of a bucket that agrees, a portion a transaction. After a crash between two, the rest
// waits, and the bucket holds what is confirmed: the next comparison is as good.
func (r *Reconciler) confirm(ctx context.Context, f *Finding) (confirmed int, err error) {
	known := f.bucket.confirmed
	for _, p := range f.bucket.portions {
		err := pgx.BeginFunc(ctx, r.config.DB, func(tx pgx.Tx) error {
			slices.Sort(p.ids)
			ids, err := machine.NewStore(tx, machine.DefaultPolicy()).Confirm(ctx, p.ids)
			if err != nil {
				return err
			}
			// Somebody else has confirmed some, or a report rejected one: what was compared isn't so any more.
			if len(ids) != len(p.ids) {
				return errMoved
			}
			next := tally{}
			next.plus(known)
			next.plus(p.tally)
			lastAt, lastValue := next.latest(f.Found)
			tag, err := tx.Exec(ctx, bookSQL, r.config.Exporter, f.Mode, f.Meter, f.Customer, f.Hour, p.tally.events,
				p.tally.sum.String(), lastAt, lastValue, known.events, known.sum.String())
			if err != nil {
				return fmt.Errorf("book: %w", err)
			}
			if tag.RowsAffected() != 1 {
				return errMoved
			}
			known = next
			return nil
		})
		if errors.Is(err, errMoved) {
			return confirmed, nil
		}
		if err != nil {
			return confirmed, fmt.Errorf("confirm the usage of %s on meter %s at %s: %w", f.Customer, f.Meter, f.Hour.Format(time.RFC3339), err)
		}
		confirmed += len(p.ids)
		r.metrics.confirmed.Add(float64(len(p.ids)))
	}
	if _, err := r.config.DB.Exec(ctx, resolveSQL, r.config.Exporter, f.Mode, f.Meter, f.Customer, f.Hour); err != nil {
		return confirmed, fmt.Errorf("resolve drift: %w", err)
	}
	return confirmed, nil
}

// A bucket that differs is read again for its own sake after a while that doubles, up to a day.
const noteSQL = `
INSERT INTO weir.drifts AS d (exporter, mode, meter, customer, hour, formula, expected, found, side, why, candidates, next_check_at)
VALUES ($1, $2, $3, $4, $5, $6, $7::text::numeric, $8::text::numeric, $9, $10, $11, clock_timestamp() + $12 * interval '1 second')
    ON CONFLICT (exporter, mode, meter, customer, hour) DO UPDATE
   SET formula = excluded.formula,
       expected = excluded.expected,
       found = excluded.found,
       side = excluded.side,
       why = excluded.why,
       candidates = excluded.candidates,
       checks = CASE WHEN d.resolved_at IS NULL THEN d.checks + 1 ELSE 1 END,
       next_check_at = clock_timestamp() + least($12 * 2 ^ CASE WHEN d.resolved_at IS NULL THEN least(d.checks, 20) ELSE 0 END, greatest(86400, $12)) * interval '1 second',
       found_at = CASE WHEN d.resolved_at IS NULL THEN d.found_at ELSE clock_timestamp() END,
       checked_at = clock_timestamp(),
       acknowledged_by = CASE WHEN d.resolved_at IS NULL THEN d.acknowledged_by END,
       acknowledge_reason = CASE WHEN d.resolved_at IS NULL THEN d.acknowledge_reason END,
       resolved_at = NULL`

func (r *Reconciler) note(ctx context.Context, f *Finding) error {
	return r.noteIn(ctx, r.config.DB, f)
}

func (r *Reconciler) noteIn(ctx context.Context, db machine.DB, f *Finding) error {
	candidates := f.Candidates
	if candidates == nil {
		candidates = []Candidate{}
	}
	text, err := json.Marshal(candidates)
	if err != nil {
		return fmt.Errorf("note drift: %w", err)
	}
	_, err = db.Exec(ctx, noteSQL, r.config.Exporter, f.Mode, f.Meter, f.Customer, f.Hour, string(f.Formula),
		f.Expected.String(), f.Found.String(), f.Side(), f.Why, string(text), r.config.Interval.Seconds())
	if err != nil {
		return fmt.Errorf("note drift: %w", err)
	}
	return nil
}
