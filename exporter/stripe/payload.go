package stripe

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// event is a payload that has been understood.
type event struct {
	customer   string
	meter      string
	value      string // a plain decimal
	timestamp  int64  // Unix seconds
	dimensions map[string]string
}

// maxText is Stripe's bound on event names, payload keys and payload values, in characters.
const maxText = 100

// problem is why an item can't be sent as it is. Its code becomes the quarantine reason.
type problem struct{ code, detail string }

func problemf(code, format string, args ...any) *problem {
	return &problem{code, fmt.Sprintf(format, args...)}
}

// fields is a payload by exact field name. encoding/json would match the fields of a struct in any case.
type fields map[string]json.RawMessage

// get answers the field, nil where it is absent or null.
func (f fields) get(name string) json.RawMessage {
	if raw := f[name]; string(raw) != "null" {
		return raw
	}
	return nil
}

// parse reads a payload by the table in the package's comment.
func parse(payload json.RawMessage) (*event, *problem) {
	var f fields
	if err := json.Unmarshal(payload, &f); err != nil || f == nil {
		return nil, problemf("payload_invalid", "payload is not a JSON object")
	}
	var e event
	var p *problem
	if e.customer, p = f.text("customer"); p != nil {
		return nil, p
	}
	if e.meter, p = f.text("meter"); p != nil {
		return nil, p
	}
	if e.value, p = parseValue(f.get("value")); p != nil {
		return nil, p
	}
	if e.timestamp, p = parseTimestamp(f.get("timestamp")); p != nil {
		return nil, p
	}
	if e.dimensions, p = parseDimensions(f.get("dimensions")); p != nil {
		return nil, p
	}
	return &e, nil
}

// text reads a string that must be there, short and printable.
func (f fields) text(name string) (string, *problem) {
	raw := f.get(name)
	if raw == nil {
		return "", problemf("no_"+name, "%s is missing: need a string", name)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", problemf(name+"_invalid", "%s is not a string", name)
	}
	if s == "" {
		return "", problemf("no_"+name, "%s is empty", name)
	}
	if !short(s) {
		return "", problemf(name+"_invalid",
			"%s has spaces around it, control characters, or more than %d characters", name, maxText)
	}
	return s, nil
}

// lastSecond is the end of the year 9999.
const lastSecond = 253402300799

// parseTimestamp reads RFC 3339, or Unix seconds as an integer.
func parseTimestamp(raw json.RawMessage) (int64, *problem) {
	if raw == nil {
		return 0, problemf("no_timestamp", "timestamp is missing: need RFC 3339 or Unix seconds")
	}
	var seconds int64
	if json.Unmarshal(raw, &seconds) == nil {
		if seconds < 0 || seconds > lastSecond {
			return 0, problemf("timestamp_invalid", "timestamp %d is outside the years 1970 to 9999: milliseconds?", seconds)
		}
		return seconds, nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if t, err := time.Parse(time.RFC3339, s); err == nil && t.Unix() >= 0 {
			return t.Unix(), nil
		}
	}
	return 0, problemf("timestamp_invalid", "timestamp is neither RFC 3339 nor whole Unix seconds: %s", clip(raw))
}

func parseDimensions(raw json.RawMessage) (map[string]string, *problem) {
	if raw == nil {
		return nil, nil
	}
	var pointers map[string]*string
	if err := json.Unmarshal(raw, &pointers); err != nil {
		return nil, problemf("dimensions_invalid", "dimensions is not an object of strings")
	}
	dimensions := make(map[string]string, len(pointers))
	for key, value := range pointers {
		switch {
		case !payloadKey(key):
			return nil, problemf("dimensions_invalid",
				"dimension %q: need a key of 1 to %d letters, digits, _, - or .", key, maxText)
		case value == nil || !short(*value):
			return nil, problemf("dimensions_invalid",
				"dimension %q: need a string of 1 to %d printable characters", key, maxText)
		}
		dimensions[key] = *value
	}
	return dimensions, nil
}

// payload is what Stripe gets: the customer, the value and the dimensions, under the meter's keys.
func (e *event) payload(keys MeterConfig) (map[string]string, *problem) {
	out := make(map[string]string, len(e.dimensions)+2)
	for key, value := range e.dimensions {
		if key == keys.CustomerKey || key == keys.ValueKey {
			return nil, problemf("dimensions_invalid", "dimension %q is the meter's key for the customer or the value", key)
		}
		out[key] = value
	}
	out[keys.CustomerKey] = e.customer
	out[keys.ValueKey] = e.value
	return out, nil
}

// short reports whether s is 1 to maxText printable characters without spaces around them.
func short(s string) bool {
	return s != "" && utf8.RuneCountInString(s) <= maxText && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError })
}

// payloadKey reports whether s may be a key of the payload. It goes out as payload[s], so brackets would
// change its meaning.
func payloadKey(s string) bool {
	return len(s) <= maxText && plain(strings.NewReplacer("-", "_", ".", "_").Replace(s))
}

// clip is the start of a JSON value, for an explanation.
func clip(raw []byte) string { return truncate(string(raw), 40) }
