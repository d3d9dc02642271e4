package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/weir-relay/weir/machine"
)

// What a person does about a drift whose cause they have found.

const acknowledgeSQL = `
UPDATE weir.drifts
   SET acknowledged_by = $6,
       acknowledge_reason = $7,
       next_check_at = clock_timestamp()
 WHERE exporter = $1
   AND mode = $2
   AND meter = $3
   AND customer = $4
   AND hour = $5
   AND resolved_at IS NULL`

// Acknowledge takes what the provider has more in a bucket for known: somebody else's usage, or usage that was counted
// twice and has been corrected. The bucket's books are raised by it, so that the next comparison can agree.
func (r *Reconciler) Acknowledge(ctx context.Context, f *Finding, by machine.Operator) error {
	if err := by.Validate(); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	if f.Standing != Differs || f.Side() != "provider" {
		return fmt.Errorf("acknowledge: the bucket %s, and only what the provider has more can be acknowledged: name what is missing instead", f.Standing)
	}
	difference := f.Found.Sub(f.Expected)
	known := f.bucket.confirmed
	var events int64
	value := decimal.Zero
	lastAt, lastValue := known.latest(f.Found)
	switch f.Formula {
	case Count:
		events = difference.IntPart()
	case Last:
		// The hour's end is later than any item of it.
		end, text := f.Hour.Add(3599e9), f.Found.String()
		lastAt, lastValue = &end, &text
	default:
		value = difference
	}
	err := pgx.BeginFunc(ctx, r.config.DB, func(tx pgx.Tx) error {
		if err := r.noteIn(ctx, tx, f); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, bookSQL, r.config.Exporter, f.Mode, f.Meter, f.Customer, f.Hour, events, value.String(), lastAt, lastValue,
			known.events, known.sum.String())
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return errMoved
		}
		_, err = tx.Exec(ctx, acknowledgeSQL, r.config.Exporter, f.Mode, f.Meter, f.Customer, f.Hour, by.Actor, by.Reason)
		return err
	})
	if err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// Missing rejects accepted items that the provider's number proves to be missing: together they make up what weir has
// more, exactly. What should be billed is then enqueued anew.
func (r *Reconciler) Missing(ctx context.Context, f *Finding, ids []int64, by machine.Operator) error {
	if err := by.Validate(); err != nil {
		return fmt.Errorf("missing: %w", err)
	}
	if f.Standing != Differs || f.Side() != "weir" || f.Formula == Last {
		return fmt.Errorf("missing: the bucket %s by the formula %s: only where weir has more, by sum or count, can items be missing", f.Standing, f.Formula)
	}
	total := decimal.Zero
	var refusals []machine.Refusal
	cause := machine.Cause{Code: "missing_from_books", Detail: fmt.Sprintf("the provider has %s where weir sent %s", f.Found, f.Expected)}
	err := r.each(ctx, func(v *row) error {
		u, ok := r.config.Books.Usage(&v.item)
		if !ok || u.Cancels != nil || !f.bucket.holds(v.item.ID) {
			return fmt.Errorf("item %d is %s and none of the accepted items of this hour", v.item.ID, v.state)
		}
		total = total.Add(weight(&Doubt{Value: u.Value}, f.Formula))
		refusals = append(refusals, machine.Refusal{Identity: v.item.Identity, Cause: cause})
		return nil
	}, byIDSQL, ids)
	if err != nil {
		return fmt.Errorf("missing: %w", err)
	}
	if len(refusals) != len(ids) {
		return fmt.Errorf("missing: %d of the %d items are there: name each once", len(refusals), len(ids))
	}
	if difference := f.Expected.Sub(f.Found); !same(f.Expected.Sub(total), f.Found) {
		return fmt.Errorf("missing: the items make %s, and %s is missing: nothing proves that it is these", total, difference)
	}
	err = pgx.BeginFunc(ctx, r.config.DB, func(tx pgx.Tx) error {
		rejected, err := machine.NewStore(tx, machine.DefaultPolicy()).Report(ctx, refusals)
		if err != nil {
			return err
		}
		if len(rejected) != len(ids) {
			return errMoved
		}
		_, err = tx.Exec(ctx, `
INSERT INTO weir.operations (actor, action, item_id, from_state, to_state, reason)
SELECT $2, 'reconcile', id, 'accepted', 'rejected', $3 FROM unnest($1::bigint[]) AS i (id)`, rejected, by.Actor, by.Reason+"; evidence: "+cause.Detail)
		return err
	})
	if errors.Is(err, errMoved) {
		return fmt.Errorf("missing: %w: compare it again", err)
	}
	if err != nil {
		return fmt.Errorf("missing: %w", err)
	}
	return nil
}

// holds reports whether the item is one of the accepted ones.
func (b *bucket) holds(id int64) bool {
	return slices.ContainsFunc(b.portions, func(p portion) bool { return slices.Contains(p.ids, id) })
}
