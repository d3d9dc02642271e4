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

// answer is all that is known of a call, in one value that the rules look at.
type answer struct {
	identifier string // ours
	sent       bool   // false: provably nothing was written to Stripe
	cancelled  bool   // the caller gave up before the call's time was over
	timedOut   bool   // the call's time was over
	status     int    // 0 where no answer came
	header     http.Header
	event      *sdk.BillingMeterEvent // ours, as Stripe created it; nil where the body doesn't say so
	refusal    *sdk.Error             // Stripe's own word; nil where the body isn't an error of Stripe's
	err        error
}

// newAnswer reads what the SDK and the HTTP layer made of a call with the context ctx.
func newAnswer(ctx context.Context, identifier string, c *call, event *sdk.BillingMeterEvent, err error) *answer {
	a := &answer{
		identifier: identifier,
		sent:       c.sent.Load(),
		cancelled:  err != nil && errors.Is(ctx.Err(), context.Canceled),
		timedOut:   err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded),
		status:     c.status,
		header:     c.header,
		err:        err,
	}
	var refusal *sdk.Error
	switch {
	case errors.As(err, &refusal) && a.status >= 400 && (refusal.Type != "" || refusal.Code != "" || refusal.Msg != ""):
		a.refusal = refusal
	case err == nil && a.status == http.StatusOK && event != nil &&
		event.Object == "billing.meter_event" && event.Identifier == identifier:
		a.event = event
	}
	return a
}

// read reports whether the answer was Stripe's and could be read.
func (a *answer) read() bool { return a.event != nil || a.refusal != nil }

// code is Stripe's code for its refusal.
func (a *answer) code() string {
	if a.refusal == nil {
		return ""
	}
	return string(a.refusal.Code)
}

// says reports whether the refusal's message contains text.
func (a *answer) says(text string) bool {
	return a.refusal != nil && strings.Contains(a.refusal.Msg, text)
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
		b.WriteString(a.refusal.Msg)
	case a.status != 0 && a.err == nil:
		b.WriteString("the body isn't the event that was sent")
	case a.err != nil:
		b.WriteString(a.err.Error())
	}
	return clean(b.String())
}
