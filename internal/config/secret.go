package config

import (
	"log/slog"
	"net/url"
	"regexp"
	"strings"
)

// Secret is an API key. However it is printed, it is redacted; Reveal gives it away.
type Secret string

// Reveal is the key itself.
func (s Secret) Reveal() string { return string(s) }

// String keeps the prefix, which says what kind of key it is, and the last four characters, which say which.
func (s Secret) String() string {
	const tail = 4
	i := strings.LastIndexByte(string(s), '_') + 1
	switch {
	case s == "":
		return ""
	case i == 0 || len(s)-i < 3*tail:
		return "(redacted)"
	}
	return string(s[:i]) + "…" + string(s[len(s)-tail:])
}

// GoString is String: %#v redacts too.
func (s Secret) GoString() string { return s.String() }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// DSN is a database's connection string, as URL or as key=value pairs. However it is printed, its password is
// redacted; Reveal gives it away.
type DSN string

// Reveal is the connection string itself.
func (d DSN) Reveal() string { return string(d) }

// String is the connection string without its passwords.
func (d DSN) String() string {
	if !strings.Contains(string(d), "://") {
		return password.ReplaceAllString(string(d), "${1}xxxxx")
	}
	u, err := url.Parse(string(d))
	if err != nil {
		return "(redacted: not a URL)"
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}

// password finds the passwords of the form key=value; a quoted value may hold spaces and escaped quotes.
var password = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'?|\S+)`)

// GoString is String: %#v redacts too.
func (d DSN) GoString() string { return d.String() }

// LogValue is String.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText is String.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
