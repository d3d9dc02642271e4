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

// String is the cause as last_error keeps it: "code: detail", on one line, without control characters.
func (c Cause) String() string {
	code := clean(c.Code, maxCode)
	if code == "" {
		code = "unknown"
	}
	detail := clean(c.Detail, maxDetail)
	if detail == "" {
		return code
	}
	return code + ": " + detail
}

// clean makes one printable line of at most n characters out of s.
func clean(s string, n int) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "�") {
		if n--; n < 0 {
			break
		}
		if unicode.IsControl(r) || unicode.IsSpace(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
