package stripe

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// event is an item that has been understood.
type event struct {
	meter      string
	keys       MeterConfig
	customer   string
	value      string // a plain decimal
	timestamp  int64  // Unix seconds
	dimensions map[string]string
	original   string  // the identifier of the event that this one corrects, "" where it names none
	vouched    bool    // the producer says that the original was billed
	cancel     *cancel // set instead of customer to dimensions where the item cancels an event
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

// word reads a string that says one of a few things; false where there is none.
func (f fields) word(name string) (string, bool) {
	raw := f.get(name)
	if raw == nil {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
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

// time reads RFC 3339, or Unix seconds as an integer, which must be there.
func (f fields) time(name string) (int64, *problem) {
	raw := f.get(name)
	if raw == nil {
		return 0, problemf("no_"+name, "%s is missing: need RFC 3339 or Unix seconds", name)
	}
	var seconds int64
	if json.Unmarshal(raw, &seconds) == nil {
		if seconds < 0 || seconds > lastSecond {
			return 0, problemf(name+"_invalid", "%s %d is outside the years 1970 to 9999: milliseconds?", name, seconds)
		}
		return seconds, nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if t, err := time.Parse(time.RFC3339, s); err == nil && t.Unix() >= 0 {
			return t.Unix(), nil
		}
	}
	return 0, problemf(name+"_invalid", "%s is neither RFC 3339 nor whole Unix seconds: %s", name, clip(raw))
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

// fits refuses dimensions that would stand where the meter expects customer or value.
func (e *event) fits() *problem {
	for key := range e.dimensions {
		if key == e.keys.CustomerKey || key == e.keys.ValueKey {
			return problemf("dimensions_invalid", "dimension %q is the meter's key for the customer or the value", key)
		}
	}
	return nil
}

// payload is what Stripe gets: the customer, the value and the dimensions, under the meter's keys.
func (e *event) payload() map[string]string {
	out := make(map[string]string, len(e.dimensions)+2)
	for key, value := range e.dimensions {
		out[key] = value
	}
	out[e.keys.CustomerKey] = e.customer
	out[e.keys.ValueKey] = e.value
	return out
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
