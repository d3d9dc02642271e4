package sandbox

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answer is a response before it is written: faults may still delay, replace or cut it.
type answer struct {
	status int
	body   []byte
	event  *event // set instead of body where one event was accepted; rendered on writing

	html        bool
	reason      string
	retryAfter  time.Duration
	shouldRetry string

	keep     bool   // belongs under the Idempotency-Key
	replayed bool   // came from there
	original uint64 // number of the request that first got this answer, if replayed
}

// write sends the answer with Stripe's headers.
func (c *call) write(w http.ResponseWriter, a answer) {
	h := w.Header()
	c.setHeaders(h, a)
	body := c.render(a)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.status)
	w.Write(body) //nolint:errcheck // a client that has gone is the client's business
}

func (c *call) render(a answer) []byte {
	if a.event == nil {
		return a.body
	}
	if c.endpoint.version == 2 {
		return appendEventV2(make([]byte, 0, 384), a.event, c.world.live)
	}
	return appendEventV1(make([]byte, 0, 384), a.event, c.world.live)
}

func (c *call) setHeaders(h http.Header, a answer) {
	h.Set("Content-Type", "application/json")
	if a.html {
		h.Set("Content-Type", "text/html; charset=utf-8")
		return // an intermediary answered, not Stripe: no request id
	}
	if a.status == http.StatusUnauthorized {
		h.Set("Www-Authenticate", `Basic realm="Stripe"`)
	}
	id := requestID(c.number)
	h.Set("Request-Id", id)
	if v := c.request.Header.Get("Stripe-Version"); v != "" {
		h.Set("Stripe-Version", v)
	}
	if c.idempotencyKey != "" {
		h.Set("Idempotency-Key", c.idempotencyKey)
		h.Set("Original-Request", id)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
		h.Set("Original-Request", requestID(a.original))
	}
	if a.reason != "" {
		h.Set("Stripe-Rate-Limited-Reason", a.reason)
	}
	if a.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(a.retryAfter.Seconds()))))
	}
	if a.shouldRetry != "" {
		h.Set("Stripe-Should-Retry", a.shouldRetry)
	}
}

// object answers 200 with a value that is rendered by reflection. Not for the hot paths.
func object(v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		return errInternal().answer()
	}
	return answer{status: http.StatusOK, body: body, keep: true}
}

// requestID spells a request's number the way Stripe's look: req_ and 14 letters or digits.
func requestID(n uint64) string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	b := [18]byte{'r', 'e', 'q', '_'}
	n *= 0x9E3779B97F4A7C15 // odd, so that different numbers stay different
	for i := len(b) - 1; i >= 4; i-- {
		b[i] = alphabet[n%uint64(len(alphabet))]
		n /= uint64(len(alphabet))
	}
	return string(b[:])
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	b = append(b, `":`...)
	return appendString(b, value)
}

// appendString appends a JSON string. Plain ASCII, nearly every value here, is copied as it stands.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) //nolint:errchkjson // a string always marshals
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func dashed(code string) string { return strings.ReplaceAll(code, "_", "-") }
