package sandbox

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// eventV2 is an event in a v2 request.
type eventV2 struct {
	EventName  string            `json:"event_name"`
	Identifier string            `json:"identifier"`
	Payload    map[string]string `json:"payload"`
	Timestamp  *time.Time        `json:"timestamp"`
}

func (e *eventV2) incoming() incoming {
	in := incoming{eventName: e.EventName, identifier: e.Identifier}
	for k, v := range e.Payload {
		in.payload = append(in.payload, field{k, v})
	}
	slices.SortFunc(in.payload, func(a, b field) int { return strings.Compare(a.key, b.key) })
	if e.Timestamp != nil {
		in.timestamp, in.stamped = e.Timestamp.Unix(), true
	}
	return in
}

// decodeEventV2 reads POST /v2/billing/meter_events.
func decodeEventV2(c *call) *apiError {
	var e eventV2
	if err := c.json(&e); err != nil {
		return err
	}
	c.events = []incoming{e.incoming()}
	return c.events[0].checkShape()
}

// decodeStream reads POST /v2/billing/meter_event_stream. Everything but the batch's size is left to validation
// after the answer.
func decodeStream(c *call) *apiError {
	var in struct {
		Events []eventV2 `json:"events"`
	}
	if err := c.json(&in); err != nil {
		return err
	}
	switch n := len(in.Events); {
	case n == 0:
		return errMissing("events")
	case n > maxBatchItems:
		return errInvalid("events", "", "Invalid array: at most %d events are allowed in one request; received %d.", maxBatchItems, n)
	}
	c.events = make([]incoming, len(in.Events))
	for i := range in.Events {
		c.events[i] = in.Events[i].incoming()
	}
	return nil
}

// json decodes a v2 body.
func (c *call) json(into any) *apiError {
	err := unmarshalStrict(c.body, into)
	if err == nil {
		return nil
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return errInvalid(kind.Field, "", "Invalid %s: expected %s, received %s", kind.Field, kind.Type, kind.Value)
	}
	if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok { // encoding/json has no type for it
		return errUnknownParam(strings.Trim(name, `"`))
	}
	return errInvalid("", "", "Invalid JSON: %v", err)
}
