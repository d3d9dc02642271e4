package sandbox

import (
	"hash/maphash"
	"net/http"
	"time"
)

// fingerprint stands for a string: 128 bits, so that millions of keys cost no strings.
type fingerprint struct{ a, b uint64 }

type hasher struct{ a, b maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

func (h hasher) of(s string) fingerprint {
	return fingerprint{maphash.String(h.a, s), maphash.String(h.b, s)}
}

// saved is the answer kept under an Idempotency-Key. A successful event is kept as the event and rendered again;
// other answers stand in world.answers, so that this stays narrow.
type saved struct {
	params  uint64 // hash of path, query and body
	number  uint64 // of the request that got the answer first
	event   *event
	at      int32 // seconds of the sandbox's clock, since the world's birth
	pending bool  // still in progress
}

// begin looks the call's Idempotency-Key up: an answer to replay, an error, or a key to finish with.
func (c *call) begin() (fingerprint, *answer, *apiError) {
	if c.request.Method != http.MethodPost || c.world.cfg.IdempotencyWindow < 0 ||
		c.endpoint.session && !c.world.cfg.Behaviour.StreamIdempotency {
		return fingerprint{}, nil, nil
	}
	c.idempotencyKey = c.request.Header.Get("Idempotency-Key")
	if c.idempotencyKey == "" {
		return fingerprint{}, nil, nil
	}
	if len(c.idempotencyKey) > 255 {
		return fingerprint{}, nil, errInvalid("", "", "Idempotency keys can be at most 255 characters long; this one has %d.", len(c.idempotencyKey))
	}
	key, params, now := c.sandbox.hasher.of(c.idempotencyKey), c.paramsHash(), c.sandbox.Now()

	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prune(now)
	s, ok := w.saved[key]
	switch {
	case !ok || !s.pending && w.age(s, now) >= w.cfg.IdempotencyWindow:
		w.saved[key] = saved{at: int32(now.Sub(w.born) / time.Second), params: params, number: c.number, pending: true}
		return key, nil, nil
	case s.params != params:
		return fingerprint{}, nil, errKeyMismatch(c.idempotencyKey)
	case s.pending:
		return fingerprint{}, nil, errKeyInUse(c.idempotencyKey)
	}
	replay := answer{status: http.StatusOK, event: s.event}
	if s.event == nil {
		replay = w.answers[key]
	}
	replay.replayed, replay.original = true, s.number
	return fingerprint{}, &replay, nil
}

// finish keeps the answer, or frees the key where Stripe would execute again: v1 keeps everything that got as far
// as execution, errors included; v2 keeps successes only and executes failures again.
func (c *call) finish(key fingerprint, a answer) {
	if key == (fingerprint{}) {
		return
	}
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !a.keep || (c.endpoint.version == 2 && a.status >= 400) {
		delete(w.saved, key)
		return
	}
	s := w.saved[key]
	s.pending = false
	if s.event = a.event; a.event == nil {
		w.answers[key] = a
	}
	w.saved[key] = s
}

func (c *call) paramsHash() uint64 {
	var h maphash.Hash
	h.SetSeed(c.sandbox.hasher.a)
	h.WriteString(c.request.URL.Path)
	h.WriteByte('?')
	h.WriteString(c.request.URL.RawQuery)
	h.WriteByte('\n')
	h.Write(c.body)
	return h.Sum64()
}

// prune forgets old keys, at most once an hour of the sandbox's clock. It needs mu.
func (w *world) prune(now time.Time) {
	if now.Sub(w.prunedAt) < time.Hour {
		return
	}
	w.prunedAt = now
	for key, s := range w.saved {
		if !s.pending && w.age(s, now) >= w.cfg.IdempotencyWindow {
			delete(w.saved, key)
			delete(w.answers, key)
		}
	}
}

func (w *world) age(s saved, now time.Time) time.Duration {
	return now.Sub(w.born) - time.Duration(s.at)*time.Second
}
