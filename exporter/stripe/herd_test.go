package stripe

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
)

// lesson "thundering herd": jitter comes on top of what Stripe asks for. Items that were all told the same second come back
// in all of the quarter after it, and none before.
func TestRetryAfterIsSpread(t *testing.T) {
	e := newExporter(t, "http://stripe.invalid", nil)
	for name, tt := range map[string]struct {
		status int
		header http.Header
		least  time.Duration
	}{
		"429 with Retry-After": {429, http.Header{"Retry-After": {"16"}}, 16 * time.Second},
		"429 without":          {429, http.Header{}, e.cfg.RateLimitDelay},
		"503 with Retry-After": {503, http.Header{"Retry-After": {"16"}}, 16 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			const told = 400
			var quarters [4]int
			for range told {
				o, _ := e.classify(&answer{sent: true, status: tt.status, header: tt.header, refusal: &complaint{message: "slow down"}})
				more := o.After - tt.least
				if o.Kind != exporter.Retry || more < 0 || more > tt.least/4 {
					t.Fatalf("%v after %v, want a retry after %v and up to a quarter", o.Kind, o.After, tt.least)
				}
				quarters[min(more/(tt.least/16), 3)]++
			}
			for i, n := range quarters {
				if n < told/8 {
					t.Errorf("%d of %d come in quarter %d of the jitter: they come together", n, told, i+1)
				}
			}
		})
	}
}
