package sandbox

import (
	"time"

	"github.com/shopspring/decimal"
)

// aggregate applies the meter's formula to the processed events with from <= timestamp < to; zero times don't bound.
// It returns how many events counted. It needs the world's mu.
func (s *series) aggregate(from, to time.Time, cutoff int64) (decimal.Decimal, int) {
	var counted []*event
	for _, e := range s.events {
		if e.stands() && e.acceptedAt <= cutoff &&
			(from.IsZero() || e.timestamp >= from.Unix()) && (to.IsZero() || e.timestamp < to.Unix()) {
			counted = append(counted, e)
		}
	}
	if s.meter.EventTimeWindow != "" {
		counted = newestOfWindows(counted, s.meter.EventTimeWindow)
	}
	return combine(counted, s.meter.Formula), len(counted)
}

func combine(events []*event, formula string) decimal.Decimal {
	switch formula {
	case FormulaCount:
		return decimal.NewFromInt(int64(len(events)))
	case FormulaLast:
		if last := newest(events); last != nil {
			return last.amount()
		}
		return decimal.Zero
	}
	sum := decimal.Zero
	for _, e := range events {
		sum = sum.Add(e.amount())
	}
	return sum
}

// newest is the event with the latest timestamp; of equals, the one that was accepted later.
func newest(events []*event) *event {
	var last *event
	for _, e := range events {
		if last == nil || e.timestamp >= last.timestamp {
			last = e
		}
	}
	return last
}

// newestOfWindows keeps one event of each hour or day: on a meter for pre-aggregated events, a newer one overwrites.
func newestOfWindows(events []*event, window string) []*event {
	width := windowSeconds(window)
	at := map[int64]int{} // window → index in kept
	var kept []*event
	for _, e := range events {
		i, ok := at[e.timestamp/width]
		if !ok {
			at[e.timestamp/width] = len(kept)
			kept = append(kept, e)
		} else if e.timestamp >= kept[i].timestamp {
			kept[i] = e
		}
	}
	return kept
}

func windowSeconds(window string) int64 {
	if window == WindowDay {
		return 24 * 60 * 60
	}
	return 60 * 60
}

// amount is the value as a number. Validation has let no other through; an empty value is that of a count meter.
func (e *event) amount() decimal.Decimal {
	d, err := decimal.NewFromString(e.value)
	if err != nil {
		return decimal.Zero
	}
	return d
}
