package machine

import (
	"strings"
	"unicode"
)

// Cause says why an item wasn't accepted: a code for programs, a line for people.
type Cause struct {
	Code   string // one word, such as http_503
	Detail string // free text from outside; kept to one line of at most 200 characters
}

// The bounds of what last_error keeps, in characters. Their sum and the ": " between stay below the
// column's 300.
const (
	maxCode   = 60
	maxDetail = 200
)

// maxProviderRef bounds what is kept of a provider's name for an item. It too comes from outside, and a text
// that the column can't hold would fail the settles of a whole batch.
const maxProviderRef = 255

// String is the cause as last_error keeps it: "code: detail", on one line, without control characters.
func (c Cause) String() string {
	code, detail := c.code(), clean(c.Detail, maxDetail)
	if detail == "" {
		return code
	}
	return code + ": " + detail
}

// code is Code as columns keep it, never "".
func (c Cause) code() string {
	if code := clean(c.Code, maxCode); code != "" {
		return code
	}
	return "unknown"
}

// clean makes one line of at most n characters out of s. What doesn't print becomes a space: line ends,
// NUL, which Postgres refuses, and marks that turn the direction of what follows on a terminal.
func clean(s string, n int) string {
	printable := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
	runes := []rune(strings.TrimSpace(printable))
	return strings.TrimSpace(string(runes[:min(n, len(runes))]))
}
