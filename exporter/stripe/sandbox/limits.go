package sandbox

import (
	"time"

	"golang.org/x/time/rate"
)

// Limits are calls a second for each account; 0 is no limit. A bucket holds one second's worth.
type Limits struct {
	MeterEvents int `json:"meter_events"` // Live: POST meter_events, v1 and v2.
	Stream      int `json:"stream"`       // Live: requests to the meter event stream.
	Other       int `json:"other"`        // Live: everything else, and all calls with Stripe-Account.
	Test        int `json:"test"`         // Test mode: everything together.
}

// StripeLimits are the limits that Stripe documents.
func StripeLimits() Limits {
	return Limits{MeterEvents: 1000, Stream: 10000, Other: 100, Test: 25}
}

// class is what an endpoint counts as.
type class uint8

const (
	classOther class = iota
	classMeterEvents
	classStream
)

// limiters of one world; nil is no limit.
type limiters struct{ events, stream, other *rate.Limiter }

func newLimiters(l Limits, live bool) limiters {
	bucket := func(n int) *rate.Limiter {
		if n <= 0 {
			return nil
		}
		return rate.NewLimiter(rate.Limit(n), n)
	}
	if live {
		return limiters{events: bucket(l.MeterEvents), stream: bucket(l.Stream), other: bucket(l.Other)}
	}
	test := bucket(l.Test)
	return limiters{events: test, stream: test, other: test}
}

func (l limiters) allow(c class, connected bool, now time.Time) *apiError {
	limiter := l.other
	switch {
	case connected:
	case c == classMeterEvents:
		limiter = l.events
	case c == classStream:
		limiter = l.stream
	}
	if limiter == nil || limiter.AllowN(now, 1) {
		return nil
	}
	if limiter == l.other {
		return errRateLimit("global-rate", 0)
	}
	return errRateLimit("endpoint-rate", 0)
}

// lane is what Stripe allows one concurrent call on.
type lane struct{ eventName, customer string }

// Concurrency is what a second call meets while another for the same customer and meter is in flight.
type Concurrency string

const (
	ConcurrencyAllowed     Concurrency = ""
	ConcurrencyRateLimited Concurrency = "429"          // with Stripe-Rate-Limited-Reason: resource-specific
	ConcurrencyConflict    Concurrency = "409"          //
	ConcurrencyLockTimeout Concurrency = "lock_timeout" // 429 with the code lock_timeout and no reason
)

func (k Concurrency) validate() error {
	switch k {
	case ConcurrencyAllowed, ConcurrencyRateLimited, ConcurrencyConflict, ConcurrencyLockTimeout:
		return nil
	}
	return &optionError{"concurrency", string(k), `"", "429", "409" or "lock_timeout"`}
}

// enter claims the lane of a single event; the caller leaves it when the work is done.
func (c *call) enter() (leave func(), err *apiError) {
	w := c.world
	if w.cfg.Concurrency == ConcurrencyAllowed || c.endpoint.class != classMeterEvents || len(c.events) != 1 {
		return func() {}, nil
	}
	l := lane{c.events[0].eventName, c.customerOf(&c.events[0])}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, taken := w.busy[l]; !taken {
		w.busy[l] = struct{}{}
		return func() {
			w.mu.Lock()
			delete(w.busy, l)
			w.mu.Unlock()
		}, nil
	}
	switch w.cfg.Concurrency {
	case ConcurrencyConflict:
		return nil, errConflict(c.endpoint.version)
	case ConcurrencyLockTimeout:
		return nil, errLockTimeout()
	default:
		return nil, errRateLimit("resource-specific", 0)
	}
}

// optionError refuses a value of an option that takes a few words.
type optionError struct{ option, got, need string }

func (e *optionError) Error() string { return e.option + ": got " + e.got + ", need " + e.need }
