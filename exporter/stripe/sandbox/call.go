package sandbox

import (
	"bytes"
	"net/http"
	"time"
)

// endpoint is one method and path of the API.
type endpoint struct {
	version int   // 1 or 2
	class   class // which limit it counts towards

	// decode reads events out of the body, so that faults can match them. Nil where there are none.
	decode func(*call) *apiError

	// handle does the work. It runs once per idempotency key.
	handle func(*call) answer

	// session authenticates by a stream session's token instead of a key.
	session bool
}

// call is one request on its way through the sandbox.
type call struct {
	sandbox  *Sandbox
	endpoint *endpoint
	request  *http.Request
	world    *world // nil without a valid key
	number   uint64
	arrived  time.Time // wall clock

	body           []byte
	idempotencyKey string
	events         []incoming
}

const maxBody = 4 << 20

// serve takes a request through its stations. THE ORDER MATTERS:
// down, early faults, body, key, note, faults before, refusals, limits, idempotency, work, faults after.
// Identifiers are noted before anything can refuse, so that the ledger knows every attempt; limits come before
// idempotency, as at Stripe, so that a 429 is never replayed.
func (s *Sandbox) serve(e *endpoint, w http.ResponseWriter, r *http.Request) {
	c := &call{sandbox: s, endpoint: e, request: r, number: s.number.Add(1), arrived: time.Now()}
	if s.down.Load() {
		cut(w, true)
		return
	}
	if s.faults.refuse(c) {
		cut(w, false)
		return
	}
	var body bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= maxBody {
		body.Grow(int(n) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		c.write(w, errInvalid("", "", "The request body could not be read: %v", err).answer())
		return
	}
	c.body = body.Bytes()

	var refusal *apiError
	if e.session {
		c.world, refusal = s.authenticateSession(r)
	} else {
		c.world, refusal = s.authenticate(r)
	}
	if e.decode != nil {
		if err := e.decode(c); refusal == nil {
			refusal = err
		}
	}
	if c.world != nil {
		for i := range c.events {
			c.world.note(c.events[i].identifier, c.arrived)
		}
	}
	plan := s.faults.plan(c)
	if !plan.before(c, w) {
		return
	}
	a, ok := plan.replacement(c)
	switch {
	case ok: // delayed by before
	case refusal != nil:
		a = refusal.answer()
	default:
		a = c.perform(plan)
	}
	plan.after(c, w, a)
}

// perform is the part of a call that a limit or an earlier answer can spare.
func (c *call) perform(plan plan) answer {
	if err := c.world.limiters.allow(c.endpoint.class, c.connected(), c.sandbox.Now()); err != nil {
		return err.answer()
	}
	key, old, err := c.begin()
	if err != nil {
		return err.answer()
	}
	if old != nil {
		return *old
	}
	a := c.work(plan)
	c.finish(key, a)
	return a
}

// work does what the call asks for, alone on its lane.
func (c *call) work(plan plan) answer {
	leave, err := c.enter()
	if err != nil {
		return err.answer()
	}
	defer leave()
	plan.delay(c, Before)
	if plan.fails(Before) {
		return errInternal().answer()
	}
	a := c.endpoint.handle(c)
	plan.delay(c, After)
	if plan.fails(After) && a.status < 300 {
		return errInternal().answer()
	}
	return a
}

// connected says whether the call is a platform's, on behalf of another account.
func (c *call) connected() bool {
	return c.request.Header.Get("Stripe-Account") != ""
}

// customerOf reads the customer of an event, by its meter's key where the meter is known.
func (c *call) customerOf(in *incoming) string {
	key := "stripe_customer_id"
	if c.world != nil {
		c.world.mu.Lock()
		if m := c.world.byName[in.eventName]; m != nil {
			key = m.CustomerKey
		}
		c.world.mu.Unlock()
	}
	customer, _ := in.get(key)
	return customer
}
