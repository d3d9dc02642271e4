package stripe

import (
	"regexp"
	"strings"
	"unicode"
)

const redacted = "[redacted]"

// secrets matches what must not reach a log or a database, whoever wrote it into an answer.
var secrets = regexp.MustCompile(`\b(?:sk|rk|pk|whsec)_[A-Za-z0-9_*]+|(?i:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)

// maxDetail is how much of an explanation the machine keeps.
const maxDetail = 200

// clean makes a provider's or a library's text fit for people: one line, valid, without secrets, at most
// maxDetail bytes.
func clean(s string) string {
	if len(s) > 4*maxDetail {
		s = s[:4*maxDetail]
	}
	s = strings.ToValidUTF8(s, "")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	return truncate(secrets.ReplaceAllString(s, redacted), maxDetail)
}

// truncate cuts s to at most n bytes, between characters.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(s[:n-len(ellipsis)], "") + ellipsis
}

// slug makes a word that may stand as a code or a quarantine reason: [a-z][a-z0-9_]{0,62}. It is "" where
// nothing of s can.
func slug(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, s)
	s = strings.Trim(strings.TrimLeft(s, "0123456789_"), "_")
	return s[:min(len(s), 63)]
}
