package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/shopspring/decimal"
)

// summaryObject is usage of one customer in one stretch of time. The customer isn't part of it, as at Stripe.
type summaryObject struct {
	ID       string      `json:"id"`
	Object   string      `json:"object"`
	Value    json.Number `json:"aggregated_value"`
	EndTime  int64       `json:"end_time"`
	Livemode bool        `json:"livemode"`
	Meter    string      `json:"meter"`
	Start    int64       `json:"start_time"`
}

// listSummaries serves GET /v1/billing/meters/{id}/event_summaries: one summary of the whole range, or with
// value_grouping_window one for each hour or day that has usage, latest first.
func listSummaries(c *call) answer {
	p, err := c.form("customer", "start_time", "end_time", "value_grouping_window", "limit", "starting_after", "ending_before")
	if err == nil {
		err = p.require("customer", "start_time", "end_time")
	}
	if err != nil {
		return err.answer()
	}
	start, end, width, err := p.summaryRange()
	if err != nil {
		return err.answer()
	}
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.byID[c.request.PathValue("id")]
	if m == nil {
		return errNotFound("billing meter", c.request.PathValue("id"), "id").answer()
	}
	if !w.knows(p["customer"]) {
		return errNotFound("customer", p["customer"], "customer").answer()
	}
	cutoff := w.cutoff(c.sandbox.Now())
	all := []summaryObject{}
	s := w.series[seriesKey{m, p["customer"]}]
	switch {
	case width == 0:
		value := decimal.Zero
		if s != nil {
			value, _ = s.aggregate(start, end, cutoff)
		}
		all = append(all, w.summary(m, p["customer"], start, end, value))
	case s != nil:
		for at := end.Add(-width); !at.Before(start); at = at.Add(-width) {
			if value, n := s.aggregate(at, at.Add(width), cutoff); n > 0 {
				all = append(all, w.summary(m, p["customer"], at, at.Add(width), value))
			}
		}
	}
	return page(p, all, "/v1/billing/meters/"+m.ID+"/event_summaries", func(o summaryObject) string { return o.ID })
}

// summary has an id that is a function of what it summarises, so that cursors survive from page to page.
func (w *world) summary(m *meter, customer string, start, end time.Time, value decimal.Decimal) summaryObject {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\n%s\n%d\n%d", m.ID, customer, start.Unix(), end.Unix())))
	return summaryObject{
		ID: idPrefix("mtrusg", w.live) + hex.EncodeToString(sum[:16]), Object: "billing.meter_event_summary",
		Value: json.Number(value.String()), Start: start.Unix(), EndTime: end.Unix(), Livemode: w.live, Meter: m.ID,
	}
}

const maxWindows = 100_000 // bounds the work of one call

// summaryRange reads and checks the range; width is 0 without value_grouping_window.
func (p params) summaryRange() (start, end time.Time, width time.Duration, err *apiError) {
	unit, word := int64(60), "minute"
	switch p["value_grouping_window"] {
	case "":
	case WindowHour:
		unit, word = windowSeconds(WindowHour), "hour"
		width = time.Hour
	case WindowDay:
		unit, word = windowSeconds(WindowDay), "UTC day"
		width = 24 * time.Hour
	default:
		return start, end, 0, errInvalid("value_grouping_window", "", "Invalid value_grouping_window: must be one of day or hour")
	}
	var at [2]int64
	for i, name := range []string{"start_time", "end_time"} {
		n, bad := strconv.ParseInt(p[name], 10, 64)
		if bad != nil {
			return start, end, 0, errInvalid(name, "parameter_invalid_integer", "Invalid integer: %s", shorten(p[name]))
		}
		if n%unit != 0 {
			return start, end, 0, errInvalid(name, "", "The %s must be aligned with %s boundaries. Received %d.", name, word, n)
		}
		at[i] = n
	}
	if at[0] >= at[1] {
		return start, end, 0, errInvalid("end_time", "", "The end_time must be greater than the start_time.")
	}
	if width > 0 && (at[1]-at[0])/unit > maxWindows {
		return start, end, 0, errInvalid("start_time", "", "The range holds more than %d windows.", maxWindows)
	}
	return time.Unix(at[0], 0).UTC(), time.Unix(at[1], 0).UTC(), width, nil
}
