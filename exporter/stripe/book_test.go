package stripe

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
)

// inspected is an Exporter that has looked at the sandbox's meters.
func inspected(t *testing.T, meters []sandbox.Meter, change func(*Config)) (*sandbox.Sandbox, *Exporter) {
	t.Helper()
	s, base := newSandbox(t, sandbox.Config{Meters: meters})
	e := newExporter(t, base.cfg.URL, change)
	if _, err := e.Inspect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, e
}

// Items of a meter that would lose or falsify their usage are held before they are sent; those of others go on.
func TestUnsafeMeters(t *testing.T) {
	who := func(c *Config) { c.Meters = map[string]MeterConfig{"tokens": {CustomerKey: "who"}} }
	fine := sandbox.Meter{EventName: "fine"}
	tests := []struct {
		name   string
		meters []sandbox.Meter
		config func(*Config)
		code   string // "": sent
	}{
		{"safe", []sandbox.Meter{{EventName: "tokens"}}, nil, ""},
		{"safe, by its own keys", []sandbox.Meter{{EventName: "tokens", CustomerKey: "who"}}, who, ""},
		{"safe, replaced", []sandbox.Meter{{ID: "mtr_1", EventName: "tokens", Status: sandbox.StatusInactive}, {ID: "mtr_2", EventName: "tokens"}}, nil, ""},
		{"safe, a newer one of its name is off", []sandbox.Meter{{ID: "mtr_1", EventName: "tokens"}, {ID: "mtr_2", EventName: "tokens", Status: sandbox.StatusInactive}}, nil, ""},
		{"last", []sandbox.Meter{{EventName: "tokens", Formula: sandbox.FormulaLast}}, nil, ""},
		{"unknown", []sandbox.Meter{fine}, nil, "meter_unknown"},
		{"inactive", []sandbox.Meter{{EventName: "tokens", Status: sandbox.StatusInactive}}, nil, "meter_inactive"},
		{"hourly", []sandbox.Meter{{EventName: "tokens", EventTimeWindow: sandbox.WindowHour}}, nil, "meter_preaggregated"},
		{"other keys", []sandbox.Meter{{EventName: "tokens", ValueKey: "n"}}, nil, "meter_keys"},
		{"keys as configured, not as they are", []sandbox.Meter{{EventName: "tokens"}}, who, "meter_keys"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, e := inspected(t, append(tt.meters, sandbox.Meter{EventName: "seats"}), tt.config)
			item, other := newItem("x"), newItem("other")
			other.Payload = payloadOf(map[string]any{"meter": "seats"})
			o := deliverOne(t, e, item)
			if tt.code == "" && o.Kind != exporter.Accepted || tt.code != "" && (o.Kind != exporter.Quarantined || o.Code != tt.code || o.Signal != exporter.Unasked) {
				t.Errorf("outcome %+v, want %q", o, tt.code)
			}
			if entry, _ := s.Entry(item.Identifier()); tt.code != "" && entry.Received != 0 {
				t.Error("it was sent")
			}
			if o := deliverOne(t, e, other); o.Kind != exporter.Accepted {
				t.Errorf("another meter's: outcome %+v, want accepted", o)
			}
		})
	}
}

// Where the account is wrong as a whole, the lane waits: its items aren't at fault.
func TestWrongAccountPauses(t *testing.T) {
	for code, change := range map[string]func(*Config){
		"account_mismatch": func(c *Config) { c.Account = "acct_1" },
		"no_meters":        nil,
	} {
		meters := []sandbox.Meter{{EventName: "tokens"}}
		if code == "no_meters" {
			meters = []sandbox.Meter{}
		}
		s, e := inspected(t, meters, change)
		o := deliverOne(t, e, newItem("x"))
		if o.Kind != exporter.Retry || o.Signal != exporter.Unauthorized || o.Cost != machine.Unsent || o.Code != code {
			t.Errorf("outcome %+v, want retry, unauthorized, unsent, %s", o, code)
		}
		if n := s.Totals().Received; n != 0 {
			t.Errorf("%s: %d events were sent", code, n)
		}
	}
}

// Evidence against an item is never older than a minute: a mended meter's items can be requeued at once.
func TestMendedMeter(t *testing.T) {
	s, e := inspected(t, []sandbox.Meter{{EventName: "seats"}}, nil)
	if o := deliverOne(t, e, newItem("x")); o.Code != "meter_unknown" {
		t.Fatalf("outcome %+v", o)
	}
	if err := s.Seed(sandbox.Seed{Meters: []sandbox.Meter{{EventName: "tokens"}}}); err != nil {
		t.Fatal(err)
	}
	if o := deliverOne(t, e, newItem("x")); o.Code != "meter_unknown" {
		t.Fatalf("fresh evidence was gathered again: outcome %+v", o)
	}
	start := time.Now()
	e.now = func() time.Time { return start.Add(stale + time.Second) }
	s.Down(true)
	if o := deliverOne(t, e, newItem("x")); o.Kind != exporter.Retry || o.Signal != exporter.Unasked || o.Cost != machine.Unsent || o.Code != "meters_unread" {
		t.Errorf("outcome %+v, want a retry: nothing is held by old evidence", o)
	}
	s.Down(false)
	if o := deliverOne(t, e, newItem("x")); o.Kind != exporter.Accepted {
		t.Errorf("outcome %+v, want accepted", o)
	}
}

// An attempt that may have been taken is settled by Stripe's answer, not by what is known of the meter or the clock.
func TestResendAsks(t *testing.T) {
	s, e := newSandbox(t, sandbox.Config{})
	if o := deliverOne(t, e, newItem("x")); o.Kind != exporter.Accepted {
		t.Fatalf("outcome %+v", o)
	}
	e.book.enter([]Meter{}, nil, time.Now())
	resent := again(newItem("x"))
	if o := deliverOne(t, e, resent); o.Kind != exporter.Accepted {
		t.Errorf("outcome %+v, want accepted", o)
	}
	if totals := s.Totals(); totals.Billed != 1 {
		t.Errorf("totals %+v", totals)
	}
	// The stream's answer would settle nothing.
	stream := newStreamTo(t, e.cfg.URL, nil)
	stream.e.book.enter([]Meter{}, nil, time.Now())
	if o := stream.Deliver(t.Context(), []machine.Item{again(newItem("streamed"))}); o[0].Kind != exporter.Uncertain || o[0].Code != "meter_unknown" {
		t.Errorf("outcome %+v, want a doubt", o[0])
	}
	old := again(newItem("old"))
	old.Payload = payloadAt(time.Now().Add(-36 * 24 * time.Hour))
	if o := deliverOne(t, e, old); o.Kind != exporter.Uncertain || o.Code != "timestamp_too_far_in_past" {
		t.Errorf("outcome %+v, want Stripe's word, and a doubt", o)
	}
}

// Many items of an unsafe meter don't ask Stripe many times.
func TestEvidenceIsShared(t *testing.T) {
	s, base := newSandbox(t, sandbox.Config{Meters: []sandbox.Meter{{EventName: "seats"}}})
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/billing/meters") {
			asked.Add(1)
		}
		s.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	e := newExporter(t, server.URL, nil)
	e.book.enter([]Meter{}, nil, base.now().Add(-time.Hour))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if o := deliverOne(t, e, newItem("x")); o.Code != "meter_unknown" {
				t.Errorf("outcome %+v", o)
			}
		})
	}
	wg.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("the meters were read %d times, want once", n)
	}
}

// A key that may not read meters leaves everything to Stripe's own answers.
func TestInspectWithoutPermission(t *testing.T) {
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			answers(403, refusal("", "The provided key does not have the required permissions"))(w, r)
			return
		}
		created(w, r, false)
	})
	e := newExporter(t, server.URL, nil)
	e.book.enter([]Meter{}, nil, time.Now()) // what the key could see before
	findings, err := e.Inspect(t.Context())
	if err != nil || len(findings) != 1 || findings[0].Code != credentialsRefused {
		t.Fatalf("findings %v, %v", findings, err)
	}
	if o := deliverOne(t, e, newItem("x")); o.Kind != exporter.Accepted {
		t.Errorf("outcome %+v, want accepted", o)
	}
}

// Watch comes back soon after a failure, and seldom otherwise.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		e := newExporter(t, "http://stripe.invalid", func(c *Config) {
			c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				if down {
					return nil, http.ErrServerClosed
				}
				return respond(r, 200, `{"object":"list","has_more":false,"data":[]}`), nil
			})
		})
		start := time.Now()
		var at []time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.Watch(t.Context(), func(_ []Finding, err error) {
				at = append(at, time.Since(start))
				if (err != nil) != down {
					t.Errorf("error %v while down is %t", err, down)
				}
				down = len(at) < 2
			})
		}()
		<-time.After(2*time.Hour + 4*time.Minute)
		synctest.Wait()
		if len(at) != 5 || at[0] != time.Minute || at[1] != 2*time.Minute || at[2] != 3*time.Minute || at[3] != time.Hour+3*time.Minute {
			t.Errorf("inspections after %v", at)
		}
	})
}
