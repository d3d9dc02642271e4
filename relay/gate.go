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
	row     int // calls in a row whose outcomes speak of trouble
}

// admission is how many items may be claimed. probe says that it is one, and the gate waits for what becomes
// of it. again is when to ask again where n is 0; zero: when something has changed.
type admission struct {
	n     int
	probe bool
	again time.Time
	rated bool // it is the lane's own rate limit that admits none
}

// admit answers how many of n items may be claimed at now.
func (g *gate) admit(n int, now time.Time) admission {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case now.Before(g.until):
		return admission{again: g.until}
	case !g.broken:
		if g.reason == pausedRateLimited {
			g.reason = ""
		}
		return admission{n: n}
	case g.probing:
		return admission{}
	}
	g.probing = true
	return admission{n: min(n, 1), probe: true}
}

// withdraw says that the probe was not sent: there was none, or it has to wait.
func (g *gate) withdraw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
}

// observe takes in what the most telling outcome of a call says of the provider. probe says that the call was
// the probe.
func (g *gate) observe(o *exporter.Outcome, probe bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if probe {
		g.probing = false
	}
	switch o.Signal {
	case exporter.Healthy:
		g.reset()
	case exporter.Unreachable:
		g.row++
		if g.broken || g.row >= breakAfter {
			g.close(pausedUnreachable, probe, now)
		}
	case exporter.Unauthorized:
		g.close(pausedUnauthorized, probe, now)
	case exporter.RateLimited:
		// It doesn't break the gate: the provider works, it only wants less.
		if now.Before(g.until) {
			break
		}
		g.pause = min(max(2*g.pause, firstPause), max(o.After, firstPause))
		g.reason, g.until = pausedRateLimited, now.Add(machine.Jitter(g.pause))
	}
}

// waive adjusts an outcome's cost: while the gate is broken, a failure says nothing about the item.
func (g *gate) waive(o *exporter.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken && o.Signal == exporter.Unreachable && o.Kind == exporter.Retry && o.Cost == machine.Counted {
		o.Cost = machine.Waived
	}
}

// reset opens the gate. Called with mu held.
func (g *gate) reset() {
	g.reason, g.broken, g.probing, g.until, g.pause, g.row = "", false, false, time.Time{}, 0, 0
}

// close breaks the gate, or lengthens the pause after a failed probe. Outcomes of calls that were under
// way when it broke don't lengthen it. Called with mu held.
func (g *gate) close(reason string, probe bool, now time.Time) {
	if g.broken && !probe {
		return
	}
	g.pause = min(max(2*g.pause, firstPause), longestPause)
	if !g.broken {
		g.pause = firstPause
	}
	g.broken, g.reason = true, reason
	g.until = now.Add(machine.Jitter(g.pause))
}

// paused answers why the gate is closed, "" while it is open.
func (g *gate) paused() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}
