package relay

import (
	"sync"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// Why a lane is paused, as lane_paused says it.
const (
	pausedUnreachable  = "unreachable"
	pausedUnauthorized = "unauthorized"
	pausedRateLimited  = "rate_limited"
)

// The breaker's constants.
const (
	// breakAfter is how many outcomes in a row must speak of the provider's trouble before the lane stops
	// claiming. One alone may be the item's fault.
	breakAfter = 5
	// The pause starts with its first and doubles with every probe that fails.
	firstPause   = time.Second
	longestPause = time.Minute
)

// gate stops a lane from claiming while the provider is in trouble, so that an outage doesn't eat attempts.
// Broken, it lets one item through at a time, as a probe, after a pause that doubles.
type gate struct {
	mu      sync.Mutex
	reason  string    // why it is closed; "" while it is open
	broken  bool      // only probes pass
	probing bool      // a probe is under way
	until   time.Time // nothing passes before
	pause   time.Duration
	row     int // outcomes in a row that speak of trouble
}

// admit answers how many of n items may be claimed at now, and when to ask again where that is none.
func (g *gate) admit(n int, now time.Time) (admitted int, again time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case now.Before(g.until):
		return 0, g.until
	case !g.broken:
		if g.reason == pausedRateLimited {
			g.reason = ""
		}
		return n, time.Time{}
	case g.probing:
		return 0, time.Time{}
	}
	g.probing = true
	return min(n, 1), time.Time{}
}

// idle says that what was admitted found nothing to send.
func (g *gate) idle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
}

// observe takes in what an outcome says of the provider, and adjusts its cost: while the gate is broken, a
// failure says nothing about the item.
func (g *gate) observe(o *exporter.Outcome, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch o.Signal {
	case exporter.Healthy:
		g.reset()
	case exporter.Unreachable:
		g.row++
		if g.broken && o.Kind == exporter.Retry && o.Cost == machine.Counted {
			o.Cost = machine.Waived
		}
		if g.row >= breakAfter {
			g.close(pausedUnreachable, now)
		}
	case exporter.Unauthorized:
		g.close(pausedUnauthorized, now)
	case exporter.RateLimited:
		// No need for probes: the provider works, it only wants less.
		g.probing = false
		if now.Before(g.until) {
			break
		}
		g.pause = min(max(2*g.pause, firstPause), max(o.After, firstPause))
		g.reason, g.until = pausedRateLimited, now.Add(machine.Jitter(g.pause))
	case exporter.Unasked:
		g.probing = false
	}
}

// reset opens the gate. Called with mu held.
func (g *gate) reset() {
	g.reason, g.broken, g.probing, g.until, g.pause, g.row = "", false, false, time.Time{}, 0, 0
}

// close breaks the gate, or lengthens the pause after a failed probe. Outcomes of calls that were under
// way when it broke don't lengthen it. Called with mu held.
func (g *gate) close(reason string, now time.Time) {
	if g.broken && !g.probing {
		return
	}
	g.pause = min(max(2*g.pause, firstPause), longestPause)
	if !g.broken {
		g.pause = firstPause
	}
	g.broken, g.probing, g.reason = true, false, reason
	g.until = now.Add(machine.Jitter(g.pause))
}

// paused answers why the gate is closed, "" while it is open.
func (g *gate) paused() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}
