package sandbox

import (
	"fmt"
	"time"
)

// Mode says whether a thing belongs to live or to test mode.
type Mode string

const (
	// AnyMode puts a configured object into both modes.
	AnyMode  Mode = ""
	LiveMode Mode = "live"
	TestMode Mode = "test"
)

func (m Mode) includes(live bool) bool { return m == AnyMode || (m == LiveMode) == live }

// Values of Meter.Status, Meter.Formula and Meter.EventTimeWindow, as Stripe spells them.
const (
	StatusActive   = "active"
	StatusInactive = "inactive"

	FormulaSum   = "sum"
	FormulaCount = "count"
	FormulaLast  = "last"

	WindowHour = "hour"
	WindowDay  = "day"
)

// Meter is a billing meter. Its JSON form is what the seed endpoint reads.
type Meter struct {
	ID              string `json:"id,omitempty"`                // Defaults to mtr_<event name>, or mtr_test_<event name>.
	EventName       string `json:"event_name"`                  // Required, at most 100 characters.
	DisplayName     string `json:"display_name,omitempty"`      // Defaults to EventName.
	Formula         string `json:"formula,omitempty"`           // sum, count or last. Defaults to sum.
	CustomerKey     string `json:"customer_key,omitempty"`      // Payload key of the customer. Defaults to stripe_customer_id.
	ValueKey        string `json:"value_key,omitempty"`         // Payload key of the value. Defaults to value.
	Status          string `json:"status,omitempty"`            // active or inactive. Defaults to active.
	EventTimeWindow string `json:"event_time_window,omitempty"` // hour, day or empty: pre-aggregated events, the newest counts.
	Account         string `json:"account,omitempty"`           // Empty: in every account.
	Mode            Mode   `json:"mode,omitempty"`              // Empty: in both modes.
}

func (m Meter) validate() error {
	switch {
	case m.EventName == "":
		return fmt.Errorf("need an event name")
	case len(m.EventName) > maxName:
		return fmt.Errorf("event name has %d characters, at most %d are allowed", len(m.EventName), maxName)
	}
	for _, f := range []struct{ name, got, a, b, c string }{
		{"formula", m.Formula, FormulaSum, FormulaCount, FormulaLast},
		{"status", m.Status, StatusActive, StatusInactive, StatusActive},
		{"event time window", m.EventTimeWindow, WindowHour, WindowDay, WindowDay},
		{"mode", string(m.Mode), string(LiveMode), string(TestMode), string(TestMode)},
	} {
		if f.got != "" && f.got != f.a && f.got != f.b && f.got != f.c {
			return fmt.Errorf("%s %q: need %s, %s or %s", f.name, f.got, f.a, f.b, f.c)
		}
	}
	return nil
}

func (m Meter) withDefaults(live bool) Meter {
	m.ID = or(m.ID, idPrefix("mtr", live)+m.EventName)
	m.DisplayName = or(m.DisplayName, m.EventName)
	m.Formula = or(m.Formula, FormulaSum)
	m.CustomerKey = or(m.CustomerKey, "stripe_customer_id")
	m.ValueKey = or(m.ValueKey, "value")
	m.Status = or(m.Status, StatusActive)
	return m
}

// meter is a Meter in one account and mode. Everything but Status, DisplayName and the times is immutable, as at Stripe.
type meter struct {
	Meter
	created       time.Time
	updated       time.Time
	deactivatedAt time.Time // zero while active
}

// Customer is a customer that events may be billed to.
type Customer struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Email   string `json:"email,omitempty"`
	Account string `json:"account,omitempty"` // Empty: in every account.
	Mode    Mode   `json:"mode,omitempty"`    // Empty: in both modes.

	created time.Time
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// idPrefix is the start of an object's id: Stripe marks ids of newer objects with the mode.
func idPrefix(object string, live bool) string {
	if live {
		return object + "_"
	}
	return object + "_test_"
}
