package stripe

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v82"
)

// kind is what a request asks for.
type kind uint8

const (
	reporting  kind = iota // one event
	streaming              // a batch of events
	cancelling             // an event's cancellation
	opening                // a session of the stream
)

// request says what a call is about.
type request struct {
	kind       kind
	item       int64  // the item's id, for logs
	identifier string // ours; "" where the request carries several, or none
}

// receipt is what a body of success says.
type receipt struct {
	ours bool // it is about what was sent
	live bool // it comes from live mode
}

// complaint is Stripe's own word against a request.
type complaint struct{ kind, code, message string }

// answer is all that is known of a call, in one value that the rules look at.
type answer struct {
	request
	sent      bool // false: provably nothing was written to Stripe
	cancelled bool // the caller gave up before the call's time was over
	timedOut  bool // the call's time was over
	status    int  // 0 where no answer came
	header    http.Header
	taken     bool       // Stripe says that it took what was sent
	live      bool       // in live mode; only where taken
	refusal   *complaint // Stripe's own word; nil where the body isn't an error of Stripe's
	err       error
}

// newAnswer reads what the client and the HTTP layer made of a call with the context ctx.
func newAnswer(ctx context.Context, r request, c *call, got receipt, err error) *answer {
	a := &answer{
		request:   r,
		sent:      c.sent.Load(),
		cancelled: err != nil && errors.Is(ctx.Err(), context.Canceled),
		timedOut:  err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded),
		status:    c.status,
		header:    c.header,
		err:       err,
	}
	if a.status >= 400 {
		a.refusal = refusalIn(err)
	} else if err == nil && a.status == http.StatusOK && got.ours {
		a.taken, a.live = true, got.live
	}
	return a
}

// Error makes a complaint an error, for the client that isn't the SDK.
func (r *complaint) Error() string { return r.message }

// refusalIn finds Stripe's word in an error of a client. The SDK has a type for each version of the API, none of
// which says what HTTP status it came with.
func refusalIn(err error) *complaint {
	var own *complaint
	var v1 *sdk.Error
	var v2 *sdk.V2RawError
	var r complaint
	switch {
	case errors.As(err, &own):
		r = *own
	case errors.As(err, &v1):
		r = complaint{string(v1.Type), string(v1.Code), v1.Msg}
	case errors.As(err, &v2):
		r = complaint{"", v2.Code, v2.Message}
		if v2.Type != nil {
			r.kind = string(*v2.Type)
		}
	}
	if r == (complaint{}) {
		return nil
	}
	return &r
}

// read reports whether the answer was Stripe's and could be read.
func (a *answer) read() bool { return a.taken || a.refusal != nil }

// code is Stripe's code for its refusal.
func (a *answer) code() string {
	if a.refusal == nil {
		return ""
	}
	return a.refusal.code
}

// says reports whether the refusal's message contains text.
func (a *answer) says(text string) bool {
	return a.refusal != nil && strings.Contains(a.refusal.message, text)
}

// requestID is what Stripe's support asks for.
func (a *answer) requestID() string { return truncate(a.header.Get("Request-Id"), 64) }

// limited is the limiter that refused a 429, "" where it says none.
func (a *answer) limited() string { return a.header.Get("Stripe-Rate-Limited-Reason") }

// retryAdvised reports whether Stripe asks for a retry, or for none. Neither where it doesn't say.
func (a *answer) retryAdvised() (yes, no bool) {
	advice := a.header.Get("Stripe-Should-Retry")
	return advice == "true", advice == "false"
}

// maxRetryAfter bounds the wait that an answer may ask for: a slip in a header mustn't park an item for a year.
const maxRetryAfter = time.Hour

// retryAfter is the wait that the answer asks for, 0 where it asks for none.
func (a *answer) retryAfter(now time.Time) time.Duration {
	header := a.header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// detail explains the answer to a person.
func (a *answer) detail() string {
	var b strings.Builder
	if a.status != 0 {
		b.WriteString("HTTP " + strconv.Itoa(a.status))
		if id := a.requestID(); id != "" {
			b.WriteString(" " + id)
		}
		if reason := a.limited(); reason != "" {
			b.WriteString(" " + reason)
		}
		b.WriteString(": ")
	}
	switch {
	case a.refusal != nil:
		b.WriteString(a.refusal.message)
	case a.status != 0 && a.err == nil:
		b.WriteString("the body isn't the event that was sent")
	case a.err != nil:
		b.WriteString(a.err.Error())
	}
	return clean(b.String())
}
