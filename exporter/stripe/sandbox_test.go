package stripe

import (
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
)

// newSandbox starts a stand-in for Stripe with an active meter, tokens, and an exporter to it.
func newSandbox(t *testing.T, cfg sandbox.Config) (*sandbox.Sandbox, *Exporter) {
	t.Helper()
	if cfg.Meters == nil {
		cfg.Meters = []sandbox.Meter{{EventName: "tokens"}}
	}
	s := sandbox.New(cfg)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.Close)
	return s, newExporter(t, server.URL, nil)
}

func fault(t *testing.T, s *sandbox.Sandbox, a sandbox.Action) {
	t.Helper()
	if _, err := s.AddFault(sandbox.Rule{Match: sandbox.Match{First: 1}, Action: a}); err != nil {
		t.Fatal(err)
	}
}

// billed says how often the item was billed; 2 is the harm that all this is to prevent.
func billed(t *testing.T, s *sandbox.Sandbox, item *machine.Item) int {
	t.Helper()
	entry, _ := s.Entry(item.Identifier())
	return entry.Billed
}

// One failed attempt, then another: whatever became of the first, the item is billed once and ends accepted.
// lesson "acknowledged too early": an answer that was lost is learnt, not assumed.
func TestSecondAttemptSettlesIt(t *testing.T) {
	tests := []struct {
		name   string
		action sandbox.Action
		taken  int // events after the first attempt
		signal exporter.Signal
		cost   machine.Cost
		code   string // of the second outcome
	}{
		{"500, not taken", sandbox.Action{Kind: sandbox.FaultFail, When: sandbox.Before}, 0, unreachable, machine.Counted, ""},
		{"500, taken", sandbox.Action{Kind: sandbox.FaultFail, When: sandbox.After}, 1, unreachable, machine.Counted, "duplicate"}, // lesson 25
		{"503 of a proxy", sandbox.Action{Kind: sandbox.FaultStatus, HTML: true}, 0, unreachable, machine.Counted, ""},
		{"answer lost", sandbox.Action{Kind: sandbox.FaultReset, When: sandbox.After}, 1, unreachable, machine.Counted, ""},
		{"answer cut short", sandbox.Action{Kind: sandbox.FaultTruncate}, 1, unreachable, machine.Counted, ""},
		{"answer empty", sandbox.Action{Kind: sandbox.FaultEmpty}, 1, unreachable, machine.Counted, ""},
		{"hangs, not taken", sandbox.Action{Kind: sandbox.FaultHang, When: sandbox.Before}, 0, unreachable, machine.Counted, ""},
		{"hangs, taken", sandbox.Action{Kind: sandbox.FaultHang, When: sandbox.After}, 1, unreachable, machine.Counted, ""},
		{"closed", sandbox.Action{Kind: sandbox.FaultRefuse}, 0, unreachable, machine.Counted, ""},
		{"429", sandbox.Action{Kind: sandbox.FaultRateLimit, Reason: "global-rate", RetryAfter: 2 * time.Second}, 0, rateLimited, machine.Unsent, ""},
		{"lock timeout", sandbox.Action{Kind: sandbox.FaultLockTimeout}, 0, healthy, machine.Unsent, ""},
		{"409", sandbox.Action{Kind: sandbox.FaultConflict}, 0, healthy, machine.Waived, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, e := newSandbox(t, sandbox.Config{})
			fault(t, s, tt.action)
			patience := e.cfg.Timeout
			if tt.action.Kind == sandbox.FaultHang {
				e.cfg.Timeout = 500 * time.Millisecond
			}
			item := newItem(tt.name)
			if o := deliverOne(t, e, item); o.Kind != exporter.Retry || o.Signal != tt.signal || o.Cost != tt.cost {
				t.Errorf("first outcome %+v, want retry, signal %v, cost %v", o, tt.signal, tt.cost)
			}
			e.cfg.Timeout = patience
			if n := billed(t, s, &item); n != tt.taken {
				t.Errorf("%d events after the first attempt, want %d", n, tt.taken)
			}
			if o := deliverOne(t, e, again(item)); o.Kind != exporter.Accepted || o.Code != tt.code {
				t.Errorf("second outcome %+v, want accepted with code %q", o, tt.code)
			}
			if n := billed(t, s, &item); n != 1 {
				t.Errorf("billed %d times", n)
			}
		})
	}
}

// Another relay doesn't know the first one's Idempotency-Key; the identifier alone has to do.
func TestAnotherRelaySettlesIt(t *testing.T) {
	s, e := newSandbox(t, sandbox.Config{})
	fault(t, s, sandbox.Action{Kind: sandbox.FaultTruncate})
	item := newItem("x")
	if o := deliverOne(t, e, item); o.Kind != exporter.Retry {
		t.Fatalf("first outcome %+v", o)
	}
	other := newExporter(t, e.cfg.URL, nil)
	if o := deliverOne(t, other, again(item)); o.Kind != exporter.Accepted || o.Code != "duplicate" || o.Ref == "" {
		t.Errorf("outcome %+v, want accepted as a duplicate", o)
	}
	if n := billed(t, s, &item); n != 1 {
		t.Errorf("billed %d times", n)
	}
}

// A refusal is stored under its Idempotency-Key too: once a person has fixed the cause, it must not come back.
func TestRequeueIsNotAnsweredFromStore(t *testing.T) {
	s, e := newSandbox(t, sandbox.Config{Meters: []sandbox.Meter{{ID: "mtr_1", EventName: "tokens", Status: sandbox.StatusInactive}}})
	item := newItem("x")
	if o := deliverOne(t, e, item); o.Kind != exporter.Quarantined || o.Code != "meter_inactive" {
		t.Fatalf("outcome %+v, want quarantined meter_inactive", o)
	}
	if err := s.Seed(sandbox.Seed{Meters: []sandbox.Meter{{ID: "mtr_1", EventName: "tokens"}}}); err != nil {
		t.Fatal(err)
	}
	requeued := item
	requeued.Token = 2
	if o := deliverOne(t, e, requeued); o.Kind != exporter.Accepted {
		t.Errorf("outcome %+v, want accepted", o)
	}
}

// The first attempt may have been taken, so the second one's refusal proves nothing.
func TestRefusalAfterDoubt(t *testing.T) {
	s, e := newSandbox(t, sandbox.Config{Meters: []sandbox.Meter{{EventName: "other"}}})
	fault(t, s, sandbox.Action{Kind: sandbox.FaultReset, When: sandbox.Before})
	item := newItem("x")
	if o := deliverOne(t, e, item); o.Kind != exporter.Retry {
		t.Fatalf("first outcome %+v", o)
	}
	if o := deliverOne(t, e, again(item)); o.Kind != exporter.Uncertain || o.Code != "meter_inactive" {
		t.Errorf("second outcome %+v, want uncertain meter_inactive", o)
	}
}

func TestSandboxDown(t *testing.T) {
	s, e := newSandbox(t, sandbox.Config{})
	s.Down(true)
	item := newItem("x")
	if o := deliverOne(t, e, item); o.Kind != exporter.Retry || o.Signal != unreachable {
		t.Errorf("outcome %+v, want retry, unreachable", o)
	}
	s.Down(false)
	if o := deliverOne(t, e, again(item)); o.Kind != exporter.Accepted {
		t.Errorf("outcome %+v, want accepted", o)
	}
}

// One Exporter, many goroutines, a Stripe that wants one call in flight per customer and meter.
func TestConcurrent(t *testing.T) {
	s, e := newSandbox(t, sandbox.Config{Concurrency: sandbox.ConcurrencyConflict})
	var wg sync.WaitGroup
	for _, ref := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		wg.Go(func() {
			item := newItem(ref)
			for range 100 {
				if o := deliverOne(t, e, item); o.Kind == exporter.Accepted {
					return
				} else if o.Kind != exporter.Retry || o.Signal != healthy || o.Cost != machine.Waived {
					t.Errorf("outcome %+v, want accepted, or a retry after a conflict", o)
				}
				item = again(item)
			}
			t.Error("never accepted")
		})
	}
	wg.Wait()
	if totals := s.Totals(); totals.Billed != 8 || totals.BilledAgain != 0 {
		t.Errorf("totals %+v, want 8 billed, none again", totals)
	}
}

func TestCheck(t *testing.T) {
	var many []sandbox.Meter
	for i := range 130 { // more than a page
		many = append(many, sandbox.Meter{EventName: "m" + time.Duration(i).String()})
	}
	tests := []struct {
		name   string
		meters []sandbox.Meter
		config func(*Config)
		want   []string // severity, code and meter
	}{
		{"fine", []sandbox.Meter{{EventName: "tokens"}}, nil, nil},
		{"fine, many", many, func(c *Config) { c.Meters = map[string]MeterConfig{"m129ns": {}, "m0s": {}} }, nil},
		{"no meters", []sandbox.Meter{}, nil, []string{"error no_meters "}},
		{"credentials", nil, func(c *Config) { c.Key = "sk_test_other" }, []string{"error credentials_refused "}},
		{"account", nil, func(c *Config) { c.Account = "acct_weir" }, nil},
		{"another's account", nil, func(c *Config) { c.Account = "acct_1" }, []string{"error account_mismatch "}},
		{"unknown and inactive", []sandbox.Meter{{EventName: "old", Status: sandbox.StatusInactive}, {EventName: "tokens"}},
			func(c *Config) { c.Meters = map[string]MeterConfig{"old": {}, "missing": {}} },
			[]string{"error meter_unknown missing", "error meter_inactive old"}},
		{"replaced", []sandbox.Meter{{ID: "mtr_1", EventName: "tokens", Status: sandbox.StatusInactive}, {ID: "mtr_2", EventName: "tokens"}},
			func(c *Config) { c.Meters = map[string]MeterConfig{"tokens": {}} }, nil},
		{"pre-aggregated", []sandbox.Meter{{EventName: "a", EventTimeWindow: sandbox.WindowDay}, {EventName: "b", EventTimeWindow: sandbox.WindowHour}},
			func(c *Config) { c.Meters = map[string]MeterConfig{"b": {}} },
			[]string{"warning meter_preaggregated a", "error meter_preaggregated b"}},
		{"keys", []sandbox.Meter{{EventName: "a", CustomerKey: "who"}, {EventName: "b", ValueKey: "n"}, {EventName: "c", ValueKey: "n"}},
			func(c *Config) { c.Meters = map[string]MeterConfig{"b": {}, "c": {ValueKey: "n"}} },
			[]string{"warning meter_keys a", "error meter_keys b"}},
		{"last", []sandbox.Meter{{EventName: "a", Formula: sandbox.FormulaLast}}, nil, []string{"warning meter_last a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, base := newSandbox(t, sandbox.Config{Meters: tt.meters})
			e := newExporter(t, base.cfg.URL, tt.config)
			findings, err := e.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range findings {
				got = append(got, string(f.Severity)+" "+f.Code+" "+f.Meter)
				if f.Detail == "" || f.Hint == "" {
					t.Errorf("finding %v: need a detail and a hint", f)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("findings %q, want %q", got, tt.want)
			}
		})
	}
}
