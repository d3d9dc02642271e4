package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/weir-relay/weir/machine"
)

// reading is one question to the provider, and the buckets that it is asked for.
type reading struct {
	series
	from, to int64 // Unix seconds
	oldest   time.Time
}

// plan makes as few readings as cover the buckets, those that have waited longest first. Buckets that rest aren't read
// for their own sake.
func plan(buckets map[Key]*bucket, resting map[Key]bool) []reading {
	hours := map[series][]*bucket{}
	for k, b := range buckets {
		if !resting[k] {
			hours[k.series()] = append(hours[k.series()], b)
		}
	}
	var out []reading
	for s, list := range hours {
		slices.SortFunc(list, func(a, b *bucket) int { return a.Hour.Compare(b.Hour) })
		var current *reading
		for _, b := range list {
			hour := b.Hour.Unix()
			if current == nil || hour >= current.from+MaxHours*3600 {
				out = append(out, reading{series: s, from: hour, oldest: b.oldest})
				current = &out[len(out)-1]
			}
			current.to = hour + 3600
			if b.oldest.Before(current.oldest) {
				current.oldest = b.oldest
			}
		}
	}
	slices.SortFunc(out, func(a, b reading) int {
		return cmp.Or(a.oldest.Compare(b.oldest), cmp.Compare(a.meter, b.meter), cmp.Compare(a.customer, b.customer), cmp.Compare(a.from, b.from))
	})
	return out
}

// answer is what the provider said to a reading.
type answer struct {
	reading
	meter Meter
	found map[int64]decimal.Decimal
	err   error // ErrUnknown, wrapped, or nil
}

// ask makes the readings, as many as reads allows, and answers how many it made. A meter that can't be compared, or
// that the provider doesn't have, costs nothing.
func (r *Reconciler) ask(ctx context.Context, readings []reading, reads int) (answers []answer, made int, err error) {
	if len(readings) == 0 {
		return nil, 0, nil
	}
	meters, err := r.meters(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, q := range readings {
		m, ok := meters[q.series.meter]
		if !ok || m.Formula == "" {
			r.incomparable(q.series.meter, ok)
			continue
		}
		if made >= reads {
			break
		}
		made++
		r.metrics.reads.Inc()
		found, err := r.config.Books.Read(ctx, Reading{m, q.customer, time.Unix(q.from, 0).UTC(), time.Unix(q.to, 0).UTC()})
		if err != nil && !errors.Is(err, ErrUnknown) {
			// What was read before is worth its price.
			return answers, made, fmt.Errorf("read the usage of %s on meter %s: %w", q.customer, q.series.meter, err)
		}
		answers = append(answers, answer{q, m, found, err})
	}
	return answers, made, nil
}

// examine compares the buckets that the answers cover. limit is when what was gathered must have been accepted.
func (r *Reconciler) examine(ctx context.Context, buckets map[Key]*bucket, answers []answer, limit time.Time, foreign bool) ([]Finding, error) {
	if len(answers) == 0 {
		return nil, nil
	}
	covered := map[Key]*bucket{}
	type number struct {
		formula Formula
		found   decimal.Decimal
		err     error
	}
	numbers := map[Key]number{}
	for _, a := range answers {
		confirmed, err := r.confirmed(ctx, a.series, time.Unix(a.from, 0), time.Unix(a.to, 0))
		if err != nil {
			return nil, err
		}
		for hour := a.from; hour < a.to; hour += 3600 {
			k := a.series.at(hour)
			known, before := confirmed[hour]
			_, there := a.found[hour]
			if buckets[k] == nil && !before && !(foreign && there) {
				continue
			}
			b := at(buckets, k)
			b.confirmed = known
			covered[k] = b
			numbers[k] = number{a.meter.Formula, a.found[hour], a.err}
		}
	}
	if err := r.disturb(ctx, covered, limit); err != nil {
		return nil, err
	}
	findings := make([]Finding, 0, len(covered))
	for k, b := range covered {
		f := judge(b, numbers[k].formula, numbers[k].found)
		if err := numbers[k].err; err != nil {
			f = unknown(b, numbers[k].formula, err)
		}
		if f.empty() {
			continue
		}
		if f.Standing == Differs || f.Standing == Unclear {
			if err := r.explain(ctx, &f); err != nil {
				return nil, err
			}
		}
		findings = append(findings, f)
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Meter, b.Meter), cmp.Compare(a.Customer, b.Customer))
	})
	return findings, nil
}

// maxCandidates bounds what is kept of an explanation.
const maxCandidates = 20

// errEnough ends the search for candidates.
var errEnough = errors.New("enough")

// explain finds the items that would account for a difference, each by itself.
func (r *Reconciler) explain(ctx context.Context, f *Finding) error {
	difference := f.Found.Sub(f.Expected)
	add := func(id int64, state machine.State, value decimal.Decimal, why string) bool {
		f.Candidates = append(f.Candidates, Candidate{id, state, value, why})
		return len(f.Candidates) < maxCandidates
	}
	for _, d := range f.Doubts {
		if d.Verdict != Reported && !add(d.ID, d.State, d.Value, string(d.Verdict)+": "+d.Why) {
			return nil
		}
	}
	if f.Standing != Differs {
		return nil
	}
	for _, d := range f.bucket.refused {
		if f.explains(&d, difference) && !add(d.ID, d.State, d.Value, "rejected, but the provider may have counted it") {
			return nil
		}
	}
	why := "accepted, but the provider may not have counted it"
	if difference.Sign() > 0 {
		why = "the provider may have counted it twice"
	}
	for _, p := range f.bucket.portions {
		err := r.each(ctx, func(v *row) error {
			u, ok := r.config.Books.Usage(&v.item)
			if !ok || u.Cancels != nil {
				return nil
			}
			d := Doubt{Value: u.Value, At: u.At}
			if (f.explains(&d, difference) || f.explains(&d, difference.Neg())) && !add(v.item.ID, v.state, u.Value, why) {
				return errEnough
			}
			return nil
		}, byIDSQL, p.ids)
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for candidates: %w", err)
		}
	}
	return nil
}

// explains reports whether the item, counted once more, would make the difference.
func (f *Finding) explains(d *Doubt, difference decimal.Decimal) bool {
	if f.Formula == Last {
		return same(d.Value, f.Found)
	}
	return same(weight(d, f.Formula), difference)
}
