package reconcile

import (
	"context"
	"fmt"
	"time"
)

// Query says which buckets a person asks about. The zero value means all that wait for confirmation, or for recovery.
type Query struct {
	Meter    string // event name; "" for any
	Customer string // "" for any
	From, To time.Time
	// Uncertain asks only for buckets of uncertain items.
	Uncertain bool
	// Reads bounds the questions to the provider.
	Reads int
}

// Report is what Examine finds.
type Report struct {
	Findings []Finding `json:"buckets"`
	Reads    int       `json:"reads"`    // questions that were asked
	Left     int       `json:"left_out"` // that were left out, for want of reads, or of a meter that can be compared
}

// Examine compares buckets with the provider's books now, and writes nothing. With a meter and a customer it covers
// every hour from From to To, also those in which only others have reported usage.
func (r *Reconciler) Examine(ctx context.Context, q Query) (*Report, error) {
	now, err := r.now(ctx)
	if err != nil {
		return nil, err
	}
	limit := now.Add(-r.config.Settle)
	s := scope{meter: q.Meter, customer: q.Customer, from: q.From, to: q.To}
	if end := time.Unix(hourOf(limit), 0).UTC(); s.to.IsZero() || s.to.After(end) {
		s.to = end
	}
	buckets, err := r.gather(ctx, s)
	if err != nil {
		return nil, err
	}
	uncertain := map[Key]bool{}
	err = r.each(ctx, func(v *row) error {
		if u, ok := r.config.Books.Usage(&v.item); ok && u.Cancels == nil && v.state == "uncertain" {
			if k := keyOf(v.item.Mode, u); s.holds(k) {
				uncertain[k] = true
				at(buckets, k)
			}
		}
		return nil
	}, doubtfulSQL, r.config.Exporter)
	if err != nil {
		return nil, fmt.Errorf("look for uncertain items: %w", err)
	}
	whole := q.Meter != "" && q.Customer != "" && !q.From.IsZero()
	if whole {
		for hour := hourOf(q.From); hour < s.to.Unix(); hour += MaxHours * 3600 {
			s.span(buckets, r.config.Books.Mode(), hour)
		}
	}
	skip := map[Key]bool{}
	if q.Uncertain {
		for k := range buckets {
			skip[k] = !uncertain[k]
		}
	}
	readings := plan(buckets, skip)
	answers, made, asking := r.ask(ctx, readings, q.Reads)
	if asking != nil {
		return nil, asking
	}
	findings, err := r.examine(ctx, buckets, answers, limit, whole)
	if err != nil {
		return nil, err
	}
	if q.Uncertain {
		findings = withDoubts(findings)
	}
	return &Report{findings, made, len(readings) - made}, nil
}

// span makes sure that the hours from hour on are read, as far as one reading reaches.
func (s scope) span(buckets map[Key]*bucket, mode string, hour int64) {
	of := series{mode, s.meter, s.customer}
	at(buckets, of.at(hour))
	at(buckets, of.at(min(hour+(MaxHours-1)*3600, s.to.Unix()-3600)))
}

func withDoubts(findings []Finding) []Finding {
	var out []Finding
	for _, f := range findings {
		if len(f.Doubts) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// Apply confirms the findings of a report that agree, and notes those that differ, as a pass would. It answers how many
// items it has confirmed.
func (r *Reconciler) Apply(ctx context.Context, report *Report) (confirmed int, err error) {
	return r.record(ctx, report.Findings)
}
