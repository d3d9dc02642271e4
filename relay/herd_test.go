package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-relay/weir/exporter"
)

// lesson "thundering herd": relays that are told the same at the same moment don't come back at the same moment, and none
// comes before it was told to.
func TestGatesOpenApart(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome exporter.Outcome
		times   int
		least   time.Duration
	}{
		"rate limit":   {exporter.Outcome{Signal: exporter.RateLimited, After: time.Second}, 1, time.Second},
		"outage":       {exporter.Outcome{Signal: exporter.Unreachable}, breakAfter, firstPause},
		"refused keys": {exporter.Outcome{Signal: exporter.Unauthorized}, 1, firstPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const relays = 400
				var quarters [4]int
				for range relays {
					g := &gate{}
					for range tt.times {
						o := tt.outcome
						g.observe(&o, false, time.Now())
					}
					more := time.Until(g.admit(1, time.Now()).again) - tt.least
					if more < 0 || more > tt.least/4 {
						t.Fatalf("opens %v after it was told to, want up to a quarter of %v", more, tt.least)
					}
					quarters[min(more/(tt.least/16), 3)]++
				}
				for i, n := range quarters {
					if n < relays/8 {
						t.Errorf("%d of %d open in quarter %d of the jitter: they come together", n, relays, i+1)
					}
				}
			})
		})
	}
}
