package sandbox

import (
	"fmt"
	"time"
)

const (
	maxName       = 100 // characters of event names, identifiers and payload values
	pastWindow    = 35 * 24 * time.Hour
	futureWindow  = 5 * time.Minute
	maxBatchItems = 100
)

// incoming is an event as a request describes it. Its strings alias the request's body.
type incoming struct {
	eventName  string
	identifier string
	payload    []field
	timestamp  int64 // seconds
	stamped    bool  // timestamp was given
}

func (in *incoming) get(key string) (string, bool) {
	for _, f := range in.payload {
		if f.key == key {
			return f.value, true
		}
	}
	return "", false
}

// checkShape refuses what no meter could take. It is part of the request's validation on every endpoint.
func (in *incoming) checkShape() *apiError {
	switch {
	case in.eventName == "":
		return errMissing("event_name")
	case len(in.eventName) > maxName:
		return errTooLong("event_name", in.eventName)
	case len(in.identifier) > maxName:
		return errTooLong("identifier", in.identifier)
	case len(in.payload) == 0:
		return errMissing("payload")
	}
	for _, f := range in.payload {
		if len(f.value) > maxName {
			return errTooLong("payload["+f.key+"]", f.value)
		}
	}
	return nil
}

func errTooLong(param, value string) *apiError {
	return errInvalid(param, "", "Invalid string: %s; must be at most %d characters", shorten(value), maxName)
}

func shorten(s string) string {
	if len(s) <= 20 {
		return s
	}
	return s[:10] + "..." + s[len(s)-7:]
}

// problem is why an event can't be billed.
type problem struct{ code, message, param string }

// checked is an event with everything that was looked up for it.
type checked struct {
	*incoming
	meter    *meter // a stray where there is none
	customer string
	value    string
	problems []problem // in the order in which Stripe would meet them; empty: billable
}

// check looks an event up and lists what is wrong with it. It needs w.mu.
func (w *world) check(in *incoming, now time.Time) checked {
	c := checked{incoming: in}
	fault := func(code, param, format string, args ...any) {
		c.problems = append(c.problems, problem{code, fmt.Sprintf(format, args...), param})
	}
	if !in.stamped {
		in.timestamp = now.Unix()
	}
	if oldest := now.Add(-pastWindow).Unix(); in.timestamp < oldest {
		fault(codeTooOld, "timestamp", "The event timestamp cannot be more than 35 days in past. Expected a timestamp greater than or equal to %d.", oldest)
	}
	if newest := now.Add(futureWindow).Unix(); in.timestamp > newest {
		fault(codeTooNew, "timestamp", "The event timestamp cannot be more than 5 minutes in the future. Expected a timestamp less than or equal to %d.", newest)
	}
	c.meter = w.byName[in.eventName]
	switch {
	case c.meter == nil:
		c.meter = w.stray(in.eventName)
		fault(codeNoMeter, "event_name", "No active meter found for event name %q", in.eventName)
	case c.meter.Status == StatusInactive:
		fault(codeArchivedMeter, "event_name", "No active meter found for event name %q", in.eventName)
	}
	var ok bool
	if c.customer, ok = in.get(c.meter.CustomerKey); !ok || c.customer == "" {
		fault(codeNoCustomer, "payload", "The event payload must contain a customer under the key %q.", c.meter.CustomerKey)
	} else if !w.knows(c.customer) {
		fault(codeCustomerNotFound, "payload", "No such customer: '%s'", c.customer)
	}
	if c.value, ok = in.get(c.meter.ValueKey); !ok && c.meter.Formula != FormulaCount {
		fault(codeNoValue, "payload", "The event payload must contain a value under the key %q.", c.meter.ValueKey)
	} else if ok {
		w.checkValue(c.value, fault)
	}
	return c
}

func (w *world) checkValue(value string, fault func(code, param, format string, args ...any)) {
	digits, whole, ok := scanNumber(value)
	limit := w.cfg.Behaviour.MaxDigits
	switch {
	case !ok:
		fault(codeInvalidValue, "payload", "The value in the event payload must be a number. Received %q.", value)
	case !whole && w.cfg.Behaviour.WholeNumbersOnly:
		fault(codeInvalidValue, "payload", "The value in the event payload must be a whole number. Received %q.", value)
	case limit > 0 && digits > limit:
		fault(codeTooManyDigits, "payload", "The value in the event payload can have at most %d digits. Received %s.", limit, value)
	}
}

// scanNumber reads -?digits[.digits] and counts the digits behind leading zeros. Exponents are refused: whether
// Stripe takes them isn't documented, so a client had better not send any.
func scanNumber(s string) (significant int, whole, ok bool) {
	if s != "" && s[0] == '-' {
		s = s[1:]
	}
	whole = true
	digits := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
			if c != '0' || significant > 0 {
				significant++
			}
		case c == '.' && whole && digits > 0 && i < len(s)-1:
			whole = false
		default:
			return 0, false, false
		}
	}
	return significant, whole, digits > 0
}
