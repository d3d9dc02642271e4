package sandbox

import (
	"net/http"
	"strconv"
	"strings"
)

// decodeEventV1 reads POST /v1/billing/meter_events.
func decodeEventV1(c *call) *apiError {
	fields, err := parseForm(string(c.body))
	if err != nil {
		return err
	}
	c.events = make([]incoming, 1)
	in := &c.events[0]
	for _, f := range fields {
		switch f.key {
		case "event_name":
			in.eventName = f.value
		case "identifier":
			in.identifier = f.value
		case "timestamp":
			seconds, bad := strconv.ParseInt(f.value, 10, 64)
			if bad != nil {
				err = errInvalid("timestamp", "parameter_invalid_integer", "Invalid integer: %s", shorten(f.value))
			}
			in.timestamp, in.stamped = seconds, true
		default:
			if key, ok := inner(f.key, "payload"); ok && !strings.ContainsRune(key, '[') {
				in.payload = append(in.payload, field{key, f.value})
			} else if key, _, _ := strings.Cut(f.key, "["); key != "expand" {
				err = errUnknownParam(f.key)
			}
		}
	}
	if err != nil {
		return err
	}
	return in.checkShape()
}

// createEvent serves POST meter_events of both versions.
func createEvent(c *call) answer {
	e, err := c.world.submit(&c.events[0], c.endpoint.version, c.arrived, c.sandbox.Now())
	if err != nil {
		return err.answer()
	}
	return answer{status: http.StatusOK, event: e, keep: true}
}

// refuse is the synchronous form of a problem.
func (p problem) refuse(version int) *apiError {
	if version == 2 {
		return p.refuseV2()
	}
	e := errRefused("%s", p.message)
	e.param = p.param
	if p.code == codeTooOld || p.code == codeTooNew || p.code == codeInvalidValue || p.code == codeTooManyDigits {
		e.validation = true
	}
	return e
}
