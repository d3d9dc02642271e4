package sandbox

import (
	"cmp"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Usage is what a meter has counted in one account and mode, over all customers and all time.
type Usage struct {
	Account string          `json:"account"`
	Live    bool            `json:"livemode"`
	Meter   string          `json:"meter"` // event name
	Events  int             `json:"events"`
	Value   decimal.Decimal `json:"value"` // by the meter's formula for each customer, then summed
}

// Usage of every meter that has events, sorted by account, mode and event name.
func (s *Sandbox) Usage() []Usage {
	var out []Usage
	for _, w := range s.allWorlds() {
		byMeter := map[*meter]*Usage{}
		w.mu.Lock()
		for _, series := range w.series {
			u := byMeter[series.meter]
			if u == nil {
				u = &Usage{Account: w.account, Live: w.live, Meter: series.meter.EventName}
				byMeter[series.meter] = u
			}
			value, n := series.aggregate(time.Time{}, time.Time{}, w.cutoff(time.Time{}))
			u.Events += n
			u.Value = u.Value.Add(value)
		}
		w.mu.Unlock()
		for _, u := range byMeter {
			out = append(out, *u)
		}
	}
	slices.SortFunc(out, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), compareBool(a.Live, b.Live), cmp.Compare(a.Meter, b.Meter))
	})
	return out
}

// cutoff is the acceptance time in nanoseconds up to which events have been processed at now; the zero time is the
// end of time.
func (w *world) cutoff(now time.Time) int64 {
	if now.IsZero() {
		return 1<<63 - 1
	}
	return now.Add(-w.cfg.ProcessingDelay).UnixNano()
}
