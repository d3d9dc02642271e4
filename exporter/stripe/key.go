package stripe

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Mode is which of Stripe's two worlds a key opens. Its text is that of weir.outbox.mode.
type Mode string

// The modes.
const (
	Live Mode = "live"
	Test Mode = "test"
)

// Key is a secret or restricted API key. However it is printed, logged or encoded, only its prefix shows;
// string(key) is the key.
type Key string

// prefixes of the keys that may send usage, and their modes.
var prefixes = []struct {
	prefix string
	mode   Mode
}{
	{"sk_live_", Live},
	{"rk_live_", Live},
	{"sk_test_", Test},
	{"rk_test_", Test},
}

// Mode answers the mode that the key's prefix names.
func (k Key) Mode() (Mode, error) {
	if k == "" {
		return "", errors.New("stripe: key is empty: set a secret or restricted API key")
	}
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(string(k), p.prefix); ok && plain(rest) {
			return p.mode, nil
		}
	}
	return "", errors.New("stripe: key is not a secret or restricted API key: need one that starts with " +
		"sk_live_, rk_live_, sk_test_ or rk_test_, with letters, digits and _ behind it")
}

// plain reports whether s is one or more of the characters that keys have. Line ends and spaces, often
// copied along, would make every call fail.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}

// String is the key's prefix only.
func (k Key) String() string {
	if k == "" {
		return ""
	}
	for _, p := range prefixes {
		if strings.HasPrefix(string(k), p.prefix) {
			return p.prefix + redacted
		}
	}
	return redacted
}

// Format keeps the key out of every verb.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) } //nolint:errcheck // as fmt does

// LogValue keeps the key out of logs.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText keeps the key out of encodings.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
