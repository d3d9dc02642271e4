package stripe

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
)

// Without a session nothing is sent, whatever the reason.
func TestStreamWithoutSession(t *testing.T) {
	live := `{"object":"v2.billing.meter_event_session","authentication_token":"t","created":"2026-03-01T12:00:00Z","expires_at":"2026-03-01T12:15:00Z","livemode":true}`
	tests := []struct {
		name   string
		serve  http.HandlerFunc
		signal exporter.Signal
		code   string
	}{
		{"not for this account", answers(400, refusal("", "Meter event sessions are available in live mode only.")), noCredentials, "http_400"},
		{"403", answers(403, refusal("", "no permission")), noCredentials, "http_403"},
		{"429", answers(429, refusal("rate_limit", "slow down")), rateLimited, "rate_limit"},
		{"500", answers(500, refusal("", "oops")), unreachable, "http_500"},
		{"html", answers(200, html), unreachable, "unreadable"},
		{"no token", answers(200, `{}`), unreachable, "unreadable"},
		{"lost", cuts("", true), unreachable, "connection_lost"},
		{"the other mode's", answers(200, live), noCredentials, "livemode_mismatch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == streamPath {
					t.Error("a batch was sent")
				}
				tt.serve(w, r)
			})
			for _, o := range newStreamTo(t, server.URL, nil).Deliver(t.Context(), newItems(2)) {
				if o.Kind != exporter.Retry || o.Signal != tt.signal || o.Cost != machine.Unsent || o.Code != tt.code || o.Detail == "" {
					t.Errorf("outcome %+v, want retry, signal %v, unsent, %s", o, tt.signal, tt.code)
				}
			}
		})
	}
}

// Whether the account may stream is known before the first item.
func TestCheckStream(t *testing.T) {
	for liveOnly, want := range map[bool]string{false: "", true: "error stream_refused"} {
		_, base := newSandbox(t, sandbox.Config{Behaviour: sandbox.Behaviour{StreamLiveOnly: liveOnly}})
		findings, err := newStreamTo(t, base.cfg.URL, nil).e.Check(t.Context())
		got := ""
		for _, f := range findings {
			got += string(f.Severity) + " " + f.Code
		}
		if err != nil || got != want {
			t.Errorf("live only %t: findings %v, %v; want %q", liveOnly, findings, err, want)
		}
	}
}

// A session is renewed before it ends, shared by all calls, and replaced where Stripe doesn't take it any more.
func TestStreamSessions(t *testing.T) {
	s, base := newSandbox(t, sandbox.Config{})
	var mu sync.Mutex
	paths := map[string]int{}
	stream := newStreamTo(t, base.cfg.URL, func(c *Config) {
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			paths[r.URL.Path]++
			mu.Unlock()
			return http.DefaultTransport.RoundTrip(r)
		})
	})
	deliver := func(ref string) {
		t.Helper()
		if o := stream.Deliver(t.Context(), []machine.Item{newItem(ref)}); o[0].Kind != exporter.Accepted {
			t.Errorf("%s: outcome %+v", ref, o[0])
		}
	}
	sessions := func(want int, when string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if got := paths["/v2/billing/meter_event_session"]; got != want {
			t.Errorf("%d sessions %s, want %d", got, when, want)
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { deliver(fmt.Sprint("at once ", i)) })
	}
	wg.Wait()
	sessions(1, "at first")
	start := time.Now()
	stream.e.now = func() time.Time { return start.Add(13 * time.Minute) }
	deliver("early")
	sessions(1, "after 13 minutes")
	stream.e.now = func() time.Time { return start.Add(14*time.Minute + time.Second) }
	deliver("late")
	sessions(2, "after 14 minutes")
	s.Advance(15 * time.Minute) // Stripe's clock says that it has ended
	stream.e.now = time.Now     // ours doesn't
	deliver("expired")
	sessions(3, "after Stripe has refused one")
	if totals := s.Totals(); totals.Billed != 11 || totals.BilledAgain != 0 {
		t.Errorf("totals %+v, want 11 billed", totals)
	}
}

// A session that is refused as soon as it is made isn't asked for without end.
func TestStreamSessionNeverGood(t *testing.T) {
	var batches atomic.Int32
	server := newServer(t, streamed(func(w http.ResponseWriter, r *http.Request) {
		batches.Add(1)
		answers(401, `{"error":{"code":"billing_meter_event_session_expired","type":"temporary_session_expired","message":"expired"}}`)(w, r)
	}))
	o := newStreamTo(t, server.URL, nil).Deliver(t.Context(), newItems(1))
	if o[0].Kind != exporter.Retry || o[0].Signal != noCredentials || o[0].Cost != machine.Unsent || batches.Load() != 2 {
		t.Errorf("outcome %+v after %d batches, want retry, unauthorized, unsent after 2", o[0], batches.Load())
	}
}
