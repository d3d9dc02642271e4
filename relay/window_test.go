package relay

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
)

// flow is a provider of a certain capacity, seen through a window, in rounds of one answer's time.
type flow struct {
	w   *window
	now time.Time
}

// round answers what a full window brings. Above capacity the provider says so, or its answers queue.
func (f *flow) round(capacity int, limits bool, took time.Duration) {
	n := f.w.calls()
	for i := range n {
		signal, latency := exporter.Healthy, took
		if i >= capacity {
			if limits {
				signal = exporter.RateLimited
			}
		}
		if !limits {
			latency = took * time.Duration(max(n, capacity)) / time.Duration(capacity)
		}
		f.w.done(signal, latency, n, f.now)
	}
	f.now = f.now.Add(took)
}

func TestWindowFindsTheCapacity(t *testing.T) {
	for _, tt := range []struct {
		name     string
		capacity int
		limits   bool
	}{
		{"a provider that limits", 40, true},
		{"a provider that becomes slow", 40, false},
		{"a small one", 3, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := flow{newWindow(256), time.Unix(0, 0)}
			var used, rounds int
			for i := range 400 {
				f.round(tt.capacity, tt.limits, 100*time.Millisecond)
				if i >= 200 {
					used, rounds = used+f.w.calls(), rounds+1
				}
			}
			if mean := float64(used) / float64(rounds); mean < 0.6*float64(tt.capacity) || mean > 2.5*float64(tt.capacity) {
				t.Errorf("the window settled at %.1f calls, the provider takes %d", mean, tt.capacity)
			}
		})
	}
}

func TestWindowOpensFast(t *testing.T) {
	f := flow{newWindow(256), time.Unix(0, 0)}
	for range 5 {
		f.round(1000, true, 100*time.Millisecond)
	}
	if n := f.w.calls(); n != 256 {
		t.Errorf("after 5 round trips without trouble %d calls may be in flight, want all 256", n)
	}
}

func TestWindowStaysWhereItIsNotUsedUp(t *testing.T) {
	w := newWindow(256)
	for i := range 1000 {
		w.done(exporter.Healthy, 50*time.Millisecond, 3, time.Unix(int64(i), 0))
	}
	if n := w.calls(); n != windowStart {
		t.Errorf("3 calls in flight moved the window to %d", n)
	}
}

func TestWindowShrinksOncePerRoundTrip(t *testing.T) {
	w := newWindow(100)
	now := time.Unix(0, 0)
	w.done(exporter.Healthy, 100*time.Millisecond, 1, now)
	for range 50 {
		w.done(exporter.RateLimited, time.Millisecond, 16, now.Add(time.Second))
	}
	if n := w.calls(); n != 11 {
		t.Errorf("a burst of refusals left %d of 16 calls, want one cut to 11", n)
	}
}

func TestWindowKeepsItsBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWindow(7)
	now := time.Unix(0, 0)
	for range 20000 {
		now = now.Add(time.Duration(rng.IntN(200)) * time.Millisecond)
		w.done(exporter.Signal(rng.IntN(5)), time.Duration(rng.IntN(5000))*time.Millisecond, rng.IntN(10), now)
		if n := w.calls(); n < 1 || n > 7 {
			t.Fatalf("%d calls, want 1 to 7", n)
		}
	}
}
