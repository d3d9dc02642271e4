package sandbox

import (
	"sync/atomic"
	"time"
)

// clock is the wall clock plus an offset that can be moved.
type clock struct {
	offset atomic.Int64 // nanoseconds; changes in Advance and SetTime only
}

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// Now is the sandbox's time. It decides every window: identifiers, idempotency keys, timestamps, sessions,
// rate limits, summaries. Only Entry.FirstReceived and webhook signatures are wall time.
func (s *Sandbox) Now() time.Time { return s.clock.now() }

// Advance moves the sandbox's clock, forward or (negative) back.
func (s *Sandbox) Advance(d time.Duration) { s.clock.offset.Add(int64(d)); s.wake() }

// SetTime makes the sandbox's clock show t now; it goes on running from there.
func (s *Sandbox) SetTime(t time.Time) { s.clock.offset.Store(int64(time.Until(t))); s.wake() }
