package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Validate checks what the schema would refuse, so that a bad item costs neither a round trip nor the
// transaction. The error is a *FieldError. Only absurd payloads are left to Postgres: numbers of more than
// 100,000 digits, and thousands of nested levels.
func (it Item) Validate() error {
	_, err := it.withDefaults().check()
	return err
}

// check validates an item that has its defaults, and answers its payload as JSON.
func (it Item) check() (json.RawMessage, error) {
	texts := []struct {
		field    string
		value    string
		min, max int // characters
		identity bool
	}{
		{"tenant_key", it.TenantKey, 1, 255, true},
		{"subject_kind", it.SubjectKind, 1, 63, true},
		{"subject_ref", it.SubjectRef, 1, 1024, true},
		{"exporter", it.Exporter, 1, 63, true},
		{"destination_account", it.DestinationAccount, 0, 255, true},
		{"mode", it.Mode, 1, 63, true},
		{"mapping_version", it.MappingVersion, 1, 63, true},
		{"order_key", it.OrderKey, 0, 255, false},
		{"source", it.Source, 0, 255, false},
		{"traceparent", it.Traceparent, 0, math.MaxInt, false},
		{"quarantine_reason", it.QuarantineReason, 0, 63, false},
	}
	for _, t := range texts {
		length := utf8.RuneCountInString(t.value)
		switch {
		case length < t.min:
			return nil, &FieldError{t.field, "must not be empty"}
		case length > t.max:
			return nil, &FieldError{t.field, fmt.Sprintf("has %d characters, at most %d fit", length, t.max)}
		case !utf8.ValidString(t.value):
			return nil, &FieldError{t.field, "is not valid UTF-8"}
		case strings.Contains(t.value, "\x00"):
			return nil, &FieldError{t.field, "holds U+0000, which Postgres cannot store"}
		case t.identity && strings.Contains(t.value, separator):
			return nil, &FieldError{t.field, "holds U+001F, which separates the parts of an identity"}
		}
	}
	if !isWord(it.Exporter) {
		return nil, &FieldError{"exporter", fmt.Sprintf("is %q: use a to z, 0 to 9 and _, and begin with a letter", it.Exporter)}
	}
	if it.Mode != "live" && it.Mode != "test" {
		return nil, &FieldError{"mode", fmt.Sprintf("is %q: use live or test", it.Mode)}
	}
	if it.QuarantineReason != "" && !isWord(it.QuarantineReason) {
		return nil, &FieldError{"quarantine_reason", fmt.Sprintf("is %q: use a to z, 0 to 9 and _, and begin with a letter", it.QuarantineReason)}
	}
	return it.payload()
}

// payload is the payload as JSON that jsonb takes.
func (it Item) payload() (json.RawMessage, error) {
	payload, err := json.Marshal(it.Payload)
	switch {
	case err != nil:
		return nil, &FieldError{"payload", err.Error()}
	case payload[0] != '{':
		return nil, &FieldError{"payload", "is not a JSON object"}
	case !utf8.Valid(payload):
		return nil, &FieldError{"payload", "is not valid UTF-8"}
	}
	if escape := strayEscape(payload); escape != "" {
		return nil, &FieldError{"payload", "holds " + escape + ", which is no character in jsonb"}
	}
	return payload, nil
}

// strayEscape finds a \u escape that JSON allows and jsonb doesn't: U+0000, or half a surrogate pair.
func strayEscape(valid []byte) string {
	for {
		i := bytes.IndexByte(valid, '\\')
		if i < 0 {
			return ""
		}
		if valid[i+1] != 'u' {
			valid = valid[i+2:]
			continue
		}
		escape := string(valid[i : i+6])
		valid = valid[i+6:]
		switch {
		case escape == `\u0000` || isLow(escape):
			return escape
		case isHigh(escape):
			if len(valid) < 6 || !isLow(string(valid[:6])) {
				return escape
			}
			valid = valid[6:]
		}
	}
}

func isHigh(escape string) bool { return surrogate(escape, "89ab") }
func isLow(escape string) bool  { return surrogate(escape, "cdef") }

func surrogate(escape, third string) bool {
	escape = strings.ToLower(escape)
	return strings.HasPrefix(escape, `\ud`) && strings.Contains(third, escape[3:4])
}

// isWord reports whether s matches ^[a-z][a-z0-9_]*$.
func isWord(s string) bool {
	for i, r := range s {
		letter := 'a' <= r && r <= 'z'
		inner := '0' <= r && r <= '9' || r == '_'
		if !letter && (i == 0 || !inner) {
			return false
		}
	}
	return s != ""
}
