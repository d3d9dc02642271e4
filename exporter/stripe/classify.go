package stripe

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// rule says what answers of one sort mean. Where an answer wants a wait, it is at least wait.
type rule struct {
	name   string
	covers func(*answer) bool
	kind   exporter.Kind
	signal exporter.Signal
	cost   machine.Cost
	code   string // "" is Stripe's own code, or else http_ and the status
	wait   wait
	next   generation
}

// wait is the least delay before a retry, before what Retry-After asks for.
type wait uint8

const (
	backoff   wait = iota // the policy's
	slowDown              // Config.RateLimitDelay
	clockSkew             // a minute: until Stripe's clock has come to the usage's time
)

// rules is how every answer is read. THE ORDER MATTERS: the first rule that covers the answer decides, and
// the last one covers all. What isn't Stripe's own word is dealt with before anything is called refused.
//
// A resend is safe inside the machine's horizon whatever became of the attempt, since it carries the same
// identifier. So an answer that leaves the outcome open is a retry here, and the machine makes it uncertain
// at the horizon. Unreachable counts towards the lane's breaker, so nothing that is about one item has it.
var rules = []rule{
	// No answer.
	{"given up before sending", func(a *answer) bool { return !a.sent && a.cancelled },
		exporter.Retry, exporter.Unasked, machine.Unsent, "cancelled", backoff, kept},
	{"never sent: no name, no route, no handshake, no time", func(a *answer) bool { return !a.sent },
		exporter.Retry, exporter.Unreachable, machine.Unsent, "unreachable", backoff, kept},
	{"given up after sending", func(a *answer) bool { return a.cancelled && !a.read() },
		exporter.Retry, exporter.Unasked, machine.Waived, "cancelled", backoff, repeated},
	{"no answer in time", func(a *answer) bool { return a.timedOut && !a.read() },
		exporter.Retry, exporter.Unreachable, machine.Counted, "timeout", backoff, repeated},
	{"connection lost without an answer", func(a *answer) bool { return a.status == 0 },
		exporter.Retry, exporter.Unreachable, machine.Counted, "connection_lost", backoff, repeated},

	// Taken.
	{"created", func(a *answer) bool { return a.taken },
		exporter.Accepted, exporter.Healthy, machine.Counted, "", backoff, renewed},
	{"taken earlier", duplicate, // lesson 25
		exporter.Accepted, exporter.Healthy, machine.Counted, "duplicate", backoff, renewed},
	{"cancelled earlier", cancelled,
		exporter.Accepted, exporter.Healthy, machine.Counted, "cancelled_earlier", backoff, renewed},
	{"success that can't be read: the next attempt learns whether it is one",
		func(a *answer) bool { return a.status < 400 },
		exporter.Retry, exporter.Unreachable, machine.Counted, "unreadable", backoff, repeated},

	// Stripe as a whole, or something in front of it.
	{"too many requests, not in Stripe's words",
		func(a *answer) bool { return a.status == http.StatusTooManyRequests && a.refusal == nil },
		exporter.Retry, exporter.RateLimited, machine.Waived, "", slowDown, kept},
	{"not Stripe's word: a proxy, or a body cut short", func(a *answer) bool { return a.refusal == nil },
		exporter.Retry, exporter.Unreachable, machine.Counted, "", backoff, repeated},
	{"Stripe's trouble", func(a *answer) bool { return a.status >= 500 || a.refusal.kind == "api_error" },
		exporter.Retry, exporter.Unreachable, machine.Counted, "", backoff, renewed},
	{"credentials refused", unauthorized,
		exporter.Retry, exporter.Unauthorized, machine.Unsent, "", backoff, kept},
	{"no such endpoint: the URL leads elsewhere",
		func(a *answer) bool { return a.status == http.StatusNotFound && a.code() == "" },
		exporter.Retry, exporter.Unreachable, machine.Unsent, "", backoff, kept},

	// Not now. A 429 comes before anything is done or stored; a 409 speaks of a sibling that is still at work.
	{"this customer's meter is busy", func(a *answer) bool { return a.status == http.StatusTooManyRequests && one(a) },
		exporter.Retry, exporter.Healthy, machine.Unsent, "", backoff, kept},
	{"too many cancellations: their limit is another than that of events",
		func(a *answer) bool { return a.status == http.StatusTooManyRequests && a.kind == cancelling },
		exporter.Retry, exporter.Healthy, machine.Unsent, "", slowDown, kept},
	{"too many requests", func(a *answer) bool { return a.status == http.StatusTooManyRequests },
		exporter.Retry, exporter.RateLimited, machine.Unsent, "", slowDown, kept},
	{"a sibling is in flight", func(a *answer) bool { return a.status == http.StatusConflict },
		exporter.Retry, exporter.Healthy, machine.Waived, "", backoff, kept},
	{"Idempotency-Key used for something else", func(a *answer) bool { return a.refusal.kind == "idempotency_error" },
		exporter.Retry, exporter.Healthy, machine.Counted, "", backoff, renewed},

	// Refused in words we know.
	{"too early by Stripe's clock", known("5 minutes in the future", "timestamp_in_future"),
		exporter.Retry, exporter.Healthy, machine.Counted, "timestamp_in_future", clockSkew, renewed},
	{"too late", known("more than 35 days in past", "timestamp_too_far_in_past"),
		exporter.Rejected, exporter.Healthy, machine.Counted, "timestamp_too_far_in_past", backoff, renewed},
	{"too many digits", known("can have at most", "meter_event_value_too_many_digits"),
		exporter.Rejected, exporter.Healthy, machine.Counted, "invalid_value", backoff, renewed},
	{"not a value", known("", "meter_event_invalid_value", "payload_invalid_value"),
		exporter.Rejected, exporter.Healthy, machine.Counted, "invalid_value", backoff, renewed},
	{"no active meter: create or reactivate it, and requeue", known("No active meter found", "no_meter", "archived_meter"),
		exporter.Quarantined, exporter.Healthy, machine.Counted, "meter_inactive", backoff, renewed},
	{"no such customer: create it, and requeue", known("No such customer", "meter_event_customer_not_found"),
		exporter.Quarantined, exporter.Healthy, machine.Counted, "customer_not_found", backoff, renewed},
	{"the meter reads another key for the customer: correct Config.Meters, and requeue",
		known("", "meter_event_no_customer_defined", "payload_no_customer_defined"),
		exporter.Quarantined, exporter.Healthy, machine.Counted, "no_customer", backoff, renewed},
	{"the meter reads another key for the value: correct Config.Meters, and requeue",
		known("", "meter_event_value_not_found", "payload_no_value_defined"),
		exporter.Quarantined, exporter.Healthy, machine.Counted, "no_value", backoff, renewed},
	{"received too long ago to be cancelled", cancels("24 hours"),
		exporter.Quarantined, exporter.Healthy, machine.Counted, "adjustment_window", backoff, renewed},
	{"no such event to cancel: it may not have been processed yet", cancels("No event"),
		exporter.Quarantined, exporter.Healthy, machine.Counted, "original_not_found", backoff, renewed},

	// Refused in others. It wasn't billed, so nothing is lost by holding it for a person.
	{"refused, but Stripe advises a retry", func(a *answer) bool { yes, _ := a.retryAdvised(); return yes },
		exporter.Retry, exporter.Healthy, machine.Counted, "", backoff, renewed},
	{"refused", func(*answer) bool { return true },
		exporter.Quarantined, exporter.Healthy, machine.Counted, "", backoff, renewed},
}

// duplicate reports whether Stripe says that our event is there already. It proves that an event with this
// identifier exists, not that it is equal; payloads never change under their identifier.
//
// Stripe's v1 gives a 400 without a code, only with the message "An event already exists with identifier
// weir_…." So the text decides, with our own identifier in it. The code is v2's, whose message names none; a
// request carries one identifier, so the code alone is enough.
func duplicate(a *answer) bool {
	return a.status == http.StatusBadRequest && a.kind != cancelling && a.identifier != "" &&
		(a.code() == "duplicate_meter_event" || a.says("already exists with identifier") && a.says(a.identifier))
}

// cancelled reports whether Stripe says that the event was cancelled before, by an attempt of ours or by somebody
// else: what was wanted is so. Stripe documents no answer to a second cancellation, so the text is a guess, and a
// narrow one: "already been finalized", said of an invoice, is another matter. What it doesn't cover is refused, and
// after an earlier attempt uncertain.
func cancelled(a *answer) bool {
	return a.kind == cancelling && a.status == http.StatusBadRequest && a.refusal != nil && alreadyCancelled.MatchString(a.refusal.message)
}

var alreadyCancelled = regexp.MustCompile(`(?i)already (been )?cancell?ed`)

// cancels covers the refusals of a cancellation with the text in their message.
func cancels(text string) func(*answer) bool {
	return func(a *answer) bool { return a.kind == cancelling && a.says(text) }
}

// unauthorized reports whether the key, or its account, is refused: then no item can be sent.
func unauthorized(a *answer) bool {
	return a.status == http.StatusUnauthorized || a.status == http.StatusForbidden ||
		slices.Contains([]string{
			"account_invalid", "api_key_expired", "livemode_mismatch", "platform_account_required",
			"platform_api_key_expired", "secret_key_required", "testmode_charges_only", "tls_version_unsupported",
		}, a.code())
}

// one reports whether a 429 is about one object rather than about the account's traffic.
func one(a *answer) bool { return a.code() == "lock_timeout" || a.limited() == "resource-specific" }

// known covers the refusals with the text in their message, or with one of the codes. v1 gives no code with
// most refusals. The texts are those that Stripe has been seen to send or documents; "" is none. The codes are
// those of error reports and of v2, which mean the same, should v1 come to give them.
func known(text string, codes ...string) func(*answer) bool {
	return func(a *answer) bool { return text != "" && a.says(text) || slices.Contains(codes, a.code()) }
}

// classify reads an answer. It answers the rule too, which says what becomes of the Idempotency-Key.
func (e *Exporter) classify(a *answer) (exporter.Outcome, *rule) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.covers(a) })
	r := &rules[i]
	o := exporter.Outcome{Kind: r.kind, Signal: r.signal, Code: r.code}
	if r.kind == exporter.Accepted {
		o.Ref = a.requestID()
		return o, r
	}
	if o.Code == "" {
		o.Code = slug(a.code())
	}
	if o.Code == "" {
		o.Code = "http_" + strconv.Itoa(a.status)
	}
	o.Detail = a.detail()
	if r.kind == exporter.Retry {
		o.Cost, o.After = r.cost, e.after(a, r.wait)
	}
	return o, r
}

// after is the least delay before the next attempt, 0 for the policy's backoff. What Retry-After asks for is
// kept, with jitter on top: those who were told the same second mustn't all come in it.
func (e *Exporter) after(a *answer, w wait) time.Duration {
	least := time.Duration(0)
	switch w {
	case slowDown:
		least = e.cfg.RateLimitDelay
	case clockSkew:
		least = time.Minute
	case backoff:
		if _, no := a.retryAdvised(); no && a.status >= 500 {
			least = e.cfg.RateLimitDelay
		}
	}
	if asked := a.retryAfter(e.now()); asked > 0 {
		least = asked
	}
	return machine.Jitter(least)
}
