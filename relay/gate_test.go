package relay

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

func outcome(s exporter.Signal) *exporter.Outcome {
	return &exporter.Outcome{Kind: exporter.Retry, Signal: s}
}

// broken is a gate after breakAfter failures.
func broken() *gate {
	g := &gate{}
	for range breakAfter {
		g.observe(outcome(exporter.Unreachable), false, time.Now())
	}
	return g
}

func TestGateBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		for i := range breakAfter {
			if a := g.admit(10, time.Now()); a.n != 10 || a.probe {
				t.Fatalf("after %d failures: want 10 admitted, got %+v", i, a)
			}
			o := outcome(exporter.Unreachable)
			g.waive(o)
			g.observe(o, false, time.Now())
			if o.Cost != machine.Counted {
				t.Errorf("failure %d: want it to count, got %v", i, o.Cost)
			}
		}
		if a := g.admit(10, time.Now()); a.n != 0 || a.again.Before(time.Now().Add(firstPause)) || g.paused() != pausedUnreachable {
			t.Errorf("want a pause, got %+v, %q", a, g.paused())
		}
		o := outcome(exporter.Unreachable)
		g.waive(o)
		if o.Cost != machine.Waived {
			t.Errorf("while broken: want the cost waived, got %v", o.Cost)
		}
	})
}

func TestGateCountsFailuresInARow(t *testing.T) {
	g := &gate{}
	for range 10 * breakAfter {
		for range breakAfter - 1 {
			g.observe(outcome(exporter.Unreachable), false, time.Now())
		}
		g.observe(outcome(exporter.Healthy), false, time.Now())
	}
	if a := g.admit(3, time.Now()); a.n != 3 {
		t.Errorf("want it open, got %+v", a)
	}
}

func TestGateProbesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := broken()
		pause := firstPause
		for range 12 {
			until := g.admit(5, time.Now()).again
			if d := time.Until(until); d < pause || d > pause+pause/4 {
				t.Fatalf("want a pause of %v and up to a quarter, got %v", pause, d)
			}
			// What was in flight when it broke lengthens nothing.
			g.observe(outcome(exporter.Unreachable), false, time.Now())
			time.Sleep(time.Until(until))
			if a := g.admit(5, time.Now()); a.n != 1 || !a.probe {
				t.Fatalf("want one probe, got %+v", a)
			}
			if a := g.admit(5, time.Now()); a.n != 0 || !a.again.IsZero() {
				t.Fatalf("want no second probe, got %+v", a)
			}
			// Nor does it end the probe.
			g.observe(outcome(exporter.Unreachable), false, time.Now())
			if a := g.admit(5, time.Now()); a.n != 0 {
				t.Fatalf("want no second probe, got %+v", a)
			}
			g.observe(outcome(exporter.Unreachable), true, time.Now())
			pause = min(2*pause, longestPause)
		}
		time.Sleep(2 * longestPause)
		g.admit(5, time.Now())
		g.observe(outcome(exporter.Healthy), true, time.Now())
		if a := g.admit(5, time.Now()); a.n != 5 || g.paused() != "" {
			t.Errorf("want it open, got %+v, %q", a, g.paused())
		}
	})
}

func TestGateProbeWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := broken()
		time.Sleep(2 * time.Second)
		for range 3 {
			if a := g.admit(5, time.Now()); !a.probe {
				t.Fatalf("want a probe, got %+v", a)
			}
			g.withdraw()
		}
	})
}

func TestGateUnauthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		g.observe(outcome(exporter.Unauthorized), false, time.Now())
		if a := g.admit(1, time.Now()); a.n != 0 || g.paused() != pausedUnauthorized {
			t.Errorf("want a pause at once, got %+v, %q", a, g.paused())
		}
		time.Sleep(2 * time.Second)
		g.admit(1, time.Now())
		// The first failure of another kind is a failed probe too.
		g.observe(outcome(exporter.Unreachable), true, time.Now())
		if a := g.admit(1, time.Now()); a.n != 0 || a.again.IsZero() || g.paused() != pausedUnreachable {
			t.Errorf("want another pause, got %+v, %q", a, g.paused())
		}
	})
}

func TestGateRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		want := firstPause
		for range 6 {
			o := outcome(exporter.RateLimited)
			o.After = 10 * time.Second
			for range 20 { // a storm of them is one
				g.observe(o, false, time.Now())
			}
			a := g.admit(4, time.Now())
			if d := time.Until(a.again); a.n != 0 || d < want || d > want+want/4 {
				t.Errorf("want a pause of %v, got %+v (%v)", want, a, d)
			}
			if g.paused() != pausedRateLimited {
				t.Errorf("want %q, got %q", pausedRateLimited, g.paused())
			}
			time.Sleep(time.Until(a.again))
			if a := g.admit(4, time.Now()); a.n != 4 || a.probe || g.paused() != "" {
				t.Errorf("want it open, got %+v, %q", a, g.paused())
			}
			want = min(2*want, 10*time.Second)
		}
	})
}

// Whatever outcomes come in whatever order, the gate admits something in bounded time once every admitted
// item has had its outcome or was withdrawn.
func TestGateIsNeverStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		g := &gate{}
		var inFlight []bool
		settle := func() {
			i := r.IntN(len(inFlight))
			probe := inFlight[i]
			inFlight = append(inFlight[:i], inFlight[i+1:]...)
			if probe && r.IntN(4) == 0 {
				g.withdraw()
				return
			}
			g.observe(outcome(exporter.Signal(r.IntN(int(exporter.Unasked)+1))), probe, time.Now())
		}
		for range 20000 {
			if len(inFlight) > 0 && r.IntN(2) == 0 {
				settle()
			}
			if a := g.admit(1+r.IntN(3), time.Now()); a.n > 0 {
				for range a.n {
					inFlight = append(inFlight, a.probe)
				}
			}
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			if r.IntN(50) == 0 {
				for len(inFlight) > 0 {
					settle()
				}
				time.Sleep(2 * longestPause)
				if a := g.admit(1, time.Now()); a.n != 1 {
					t.Fatalf("nothing is in flight, and nothing is admitted: %+v, %+v", a, g)
				} else {
					inFlight = append(inFlight, a.probe)
				}
			}
		}
	})
}

// One lost call of a hundred items is one sign of trouble, not a hundred.
func TestMostTelling(t *testing.T) {
	h, u, r, n := exporter.Healthy, exporter.Unreachable, exporter.RateLimited, exporter.Unasked
	for _, tt := range []struct {
		signals []exporter.Signal
		want    exporter.Signal
	}{
		{[]exporter.Signal{h}, h},
		{[]exporter.Signal{n, n}, n},
		{[]exporter.Signal{n, h, n}, h},
		{[]exporter.Signal{h, u, h}, u},
		{[]exporter.Signal{u, h, r}, r},
	} {
		var outcomes []exporter.Outcome
		for _, s := range tt.signals {
			outcomes = append(outcomes, exporter.Outcome{Signal: s})
		}
		if got := mostTelling(outcomes).Signal; got != tt.want {
			t.Errorf("of %v: want %v, got %v", tt.signals, tt.want, got)
		}
	}
}
