package relay

import (
	"sync"
	"time"

	"github.com/weir-relay/weir/exporter"
)

// The window's constants.
const (
	windowStart   = 16  // calls in flight at the start, where the provider takes as many
	windowLeast   = 4   // it doesn't shrink below: a provider that wants less says so each time
	windowCut     = 0.7 // what is left after the provider has asked for less
	windowTrim    = 0.9 // what is left when answers have become slow
	windowSlow    = 2.0 // answers are slow that take so many times as long as they can
	windowLenient = 20 * time.Millisecond
	windowForgets = 10 * time.Minute // how long it remembers how fast answers can be
)

// window is how many calls may be in flight: it looks for what the provider can take. It grows by one call a
// round trip while it is used and all goes well (before the first cut: by one an answer), and shrinks by a
// factor, at most once a round trip, when the provider asks for less or becomes slow. Failures say nothing of
// its capacity; the gate deals with them.
//
// Invariant: min(most, windowLeast) <= size <= most.
type window struct {
	most float64 // Limits.Calls

	mu    sync.Mutex
	size  float64
	eager bool          // nothing has gone wrong yet
	cutAt time.Time     // when it last shrank
	mean  time.Duration // over about the last 16 answers
	base  time.Duration // the least mean, slowly forgotten: what an answer takes where nothing queues
	at    time.Time     // of the last answer
}

func newWindow(most int) *window {
	return &window{most: float64(most), size: min(float64(most), windowStart), eager: true}
}

// calls is how many calls may be in flight.
func (w *window) calls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int(w.size)
}

// done takes in an answer: what it says of the provider, how long it took, and how many calls were in flight
// with it.
func (w *window) done(signal exporter.Signal, took time.Duration, inFlight int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch signal {
	case exporter.RateLimited:
		w.shrink(windowCut, now)
	case exporter.Healthy:
		w.time(took, now)
		if w.mean > time.Duration(windowSlow*float64(w.base))+windowLenient {
			w.shrink(windowTrim, now)
			return
		}
		if 2*inFlight < int(w.size) {
			return // it isn't used, so nothing shows that more would go
		}
		step := 1 / w.size
		if w.eager {
			step = 1
		}
		w.size = min(w.most, w.size+step)
	}
}

// time folds an answer's time in. Called with mu held.
func (w *window) time(took time.Duration, now time.Time) {
	since := now.Sub(w.at)
	w.at = now
	if w.base == 0 {
		w.mean, w.base = took, took
		return
	}
	w.mean += (took - w.mean) / 16
	if w.mean < w.base {
		w.base = w.mean
	} else {
		part := min(1, float64(since)/float64(windowForgets))
		w.base += time.Duration(part * float64(w.mean-w.base))
	}
}

// shrink leaves a part of the window, unless it has shrunk within the last round trip: the answers of calls
// that were in flight then say nothing new. Called with mu held.
func (w *window) shrink(left float64, now time.Time) {
	if now.Sub(w.cutAt) < max(w.mean, time.Millisecond) {
		return
	}
	w.eager, w.cutAt = false, now
	w.size = max(min(w.most, windowLeast), w.size*left)
}
