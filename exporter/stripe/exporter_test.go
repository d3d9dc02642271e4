package stripe

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// newExporter makes an Exporter for a server; change adjusts its configuration.
func newExporter(t testing.TB, url string, change func(*Config)) *Exporter {
	t.Helper()
	cfg := Config{Key: "sk_test_weir", URL: url}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// newServer serves until the test ends.
func newServer(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// newItem is a claimed item, sent for the first time. ref tells items apart.
func newItem(ref string) machine.Item {
	return machine.Item{
		ID: 1, Token: 1, Attempts: 1, FirstAttempt: true, Exporter: "stripe", Mode: "test", Identity: sha256.Sum256([]byte(ref)),
		Payload: payloadAt(time.Now()),
	}
}

// again is the item as its next claim gives it.
func again(item machine.Item) machine.Item {
	item.Token++
	item.Attempts++
	item.FirstAttempt = false
	return item
}

func payloadAt(at time.Time) json.RawMessage {
	p, _ := json.Marshal(map[string]any{"customer": "cus_1", "meter": "tokens", "value": "25", "timestamp": at.UTC()})
	return p
}

func deliverOne(t testing.TB, e *Exporter, item machine.Item) exporter.Outcome {
	t.Helper()
	outcomes := e.Deliver(t.Context(), []machine.Item{item})
	if len(outcomes) != 1 {
		t.Fatalf("%d outcomes for one item", len(outcomes))
	}
	return outcomes[0]
}

// created answers as Stripe does to an event that it takes.
func created(w http.ResponseWriter, r *http.Request, live bool) {
	r.ParseForm() //nolint:errcheck // our own request
	w.Header().Set("Request-Id", "req_1")
	json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck // a client that has gone sees it
		"object": "billing.meter_event", "identifier": r.PostForm.Get("identifier"), "event_name": r.PostForm.Get("event_name"), "livemode": live,
	})
}

// lesson 25: the identifier is always sent.
func TestWire(t *testing.T) {
	requests := make(chan *http.Request, 2)
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		created(w, r, false)
		requests <- r
	})
	e := newExporter(t, server.URL, func(c *Config) {
		c.Account, c.Connect = "acct_1", true
		c.Meters = map[string]MeterConfig{"tokens": {CustomerKey: "who"}}
	})
	item := newItem("wire")
	item.Account = "acct_1"
	item.Token = 7
	item.Payload = json.RawMessage(`{"customer":"cus_1","meter":"tokens","value":1.50e1,"timestamp":` +
		time.Now().Format(`"`+time.RFC3339+`"`) + `,"dimensions":{"region":"eu & us"},"feature":"chat"}`)
	for range 2 { // telemetry would tell of the first call in the second
		if o := deliverOne(t, e, item); o.Kind != exporter.Accepted || o.Ref != "req_1" || o.Signal != exporter.Healthy {
			t.Fatalf("outcome %+v", o)
		}
	}
	<-requests
	got := <-requests
	for key, want := range map[string]string{
		"event_name": "tokens", "identifier": item.Identifier(), "payload[who]": "cus_1", "payload[value]": "15", "payload[region]": "eu & us",
	} {
		if v := got.PostForm.Get(key); v != want {
			t.Errorf("%s is %q, want %q", key, v, want)
		}
	}
	if len(got.PostForm) != 6 || got.PostForm.Get("timestamp") == "" {
		t.Errorf("form %v: need the five and a timestamp", got.PostForm)
	}
	for key, want := range map[string]string{
		"Authorization": "Bearer sk_test_weir", "Stripe-Account": "acct_1", "Idempotency-Key": item.Identifier() + "-7", "X-Stripe-Client-Telemetry": "",
	} {
		if v := got.Header.Get(key); v != want {
			t.Errorf("%s is %q, want %q", key, v, want)
		}
	}
	if got.Method != http.MethodPost || got.URL.Path != "/v1/billing/meter_events" {
		t.Errorf("%s %s", got.Method, got.URL.Path)
	}
}

func TestHeldItemsAreNotSent(t *testing.T) {
	server := newServer(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s: nothing may be sent", r.Method, r.URL) })
	dimension := func(key string) func(*machine.Item) {
		return func(i *machine.Item) {
			i.Payload = json.RawMessage(`{"customer":"c","meter":"m","value":1,"timestamp":` +
				time.Now().Format(`"`+time.RFC3339+`"`) + `,"dimensions":{"` + key + `":"2"}}`)
		}
	}
	connect := func(c *Config) { c.Account, c.Connect = "acct_1", true }
	tests := []struct {
		name   string
		config func(*Config)
		item   func(*machine.Item)
		kind   exporter.Kind
		code   string
	}{
		{"payload", nil, func(i *machine.Item) { i.Payload = json.RawMessage(`[]`) }, exporter.Quarantined, "payload_invalid"},
		{"dimension for the value", nil, dimension("value"), exporter.Quarantined, "dimensions_invalid"},
		{"dimension for the customer", nil, dimension("stripe_customer_id"), exporter.Quarantined, "dimensions_invalid"},
		{"mode", nil, func(i *machine.Item) { i.Mode = "live" }, exporter.Quarantined, "mode_mismatch"},
		{"account that nobody configured", nil, func(i *machine.Item) { i.Account = "acct_1" }, exporter.Quarantined, "no_account"},
		{"other account", connect, func(i *machine.Item) { i.Account = "acct_2" }, exporter.Quarantined, "account_mismatch"},
		{"the platform's account", connect, func(*machine.Item) {}, exporter.Quarantined, "no_account"},
		{"too old", nil, func(i *machine.Item) { i.Payload = payloadAt(time.Now().Add(-36 * 24 * time.Hour)) }, exporter.Quarantined, "timestamp_window"},
		{"too far ahead", nil, func(i *machine.Item) { i.Payload = payloadAt(time.Now().Add(26 * time.Hour)) }, exporter.Quarantined, "timestamp_window"},
		{"ahead", nil, func(i *machine.Item) { i.Payload = payloadAt(time.Now().Add(time.Hour)) }, exporter.Retry, "timestamp_ahead"},
		{"past the horizon", nil, func(i *machine.Item) { i.PastHorizon = true }, exporter.Uncertain, "past_horizon"},
		{"fit no longer, after an attempt", nil, func(i *machine.Item) { i.FirstAttempt, i.Mode = false, "live" }, exporter.Uncertain, "mode_mismatch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			item := newItem(tt.name)
			tt.item(&item)
			o := deliverOne(t, newExporter(t, server.URL, tt.config), item)
			if o.Kind != tt.kind || o.Code != tt.code || o.Signal != exporter.Unasked || o.Detail == "" {
				t.Errorf("outcome %+v, want %v %s, unasked, with a detail", o, tt.kind, tt.code)
			}
		})
	}
}

// lesson 25: the window is looked at before, so that usage is not lost in it.
func TestWindow(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		at    time.Duration // from now
		kind  exporter.Kind // 0: sent
		after time.Duration
	}{
		{-past - time.Second, exporter.Quarantined, 0},
		{-past, 0, 0},
		{0, 0, 0},
		{ahead, 0, 0},
		{ahead + time.Second, exporter.Retry, 2 * time.Second},
		{ahead + patience, exporter.Retry, patience + time.Second},
		{ahead + patience + time.Second, exporter.Quarantined, 0},
	}
	for _, tt := range tests {
		o := window(now.Add(tt.at), now)
		if o == nil {
			o = &exporter.Outcome{}
		}
		if o.Kind != tt.kind || o.After != tt.after {
			t.Errorf("usage %v from now: %v after %v, want %v after %v", tt.at, o.Kind, o.After, tt.kind, tt.after)
		}
		if o.Kind == exporter.Retry && o.Cost != machine.Unsent {
			t.Errorf("usage %v from now: cost %v: nothing was sent", tt.at, o.Cost)
		}
	}
	for _, second := range []int64{0, lastSecond} {
		if o := window(time.Unix(second, 0), now); o == nil || o.Kind != exporter.Quarantined {
			t.Errorf("usage of second %d: %+v, want it quarantined", second, o)
		}
	}
}

// An answer from the other mode: true for its item, and the end of sending.
func TestOtherMode(t *testing.T) {
	var calls atomic.Int32
	var alarms []string
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); created(w, r, true) })
	e := newExporter(t, server.URL, func(c *Config) { c.OnModeMismatch = func(id string) { alarms = append(alarms, id) } })
	first := newItem("first")
	if o := deliverOne(t, e, first); o.Kind != exporter.Accepted || o.Signal != exporter.Unauthorized {
		t.Errorf("outcome %+v, want accepted, unauthorized", o)
	}
	o := deliverOne(t, e, newItem("second"))
	if o.Kind != exporter.Retry || o.Signal != exporter.Unauthorized || o.Cost != machine.Unsent || o.Code != "livemode_mismatch" {
		t.Errorf("outcome %+v, want retry, unauthorized, unsent", o)
	}
	if calls.Load() != 1 || len(alarms) != 1 || alarms[0] != first.Identifier() {
		t.Errorf("%d calls, alarms %v; want one of each, for the first", calls.Load(), alarms)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := newServer(t, func(http.ResponseWriter, *http.Request) { t.Error("the event was sent elsewhere") })
	e := newExporter(t, newServer(t, answers(307, "", "Location", elsewhere.URL)).URL, nil)
	if o := deliverOne(t, e, newItem("x")); o.Kind != exporter.Retry {
		t.Errorf("outcome %+v, want retry", o)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	body := strings.Repeat(" ", maxAnswer) + `{"object":"billing.meter_event","identifier":"IDENTIFIER"}`
	e := newExporter(t, newServer(t, answers(200, body)).URL, nil)
	if o := deliverOne(t, e, newItem("x")); o.Kind != exporter.Retry || o.Code != "unreadable" {
		t.Errorf("outcome %+v, want retry, unreadable: the event stands behind the bound", o)
	}
}

// A busy relay keeps a connection for each call, rather than open one for nearly every event.
func TestConnectionsAreKept(t *testing.T) {
	const calls, rounds = 8, 5
	var opened atomic.Int32
	var arrived sync.WaitGroup // makes the calls of a round meet
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		arrived.Wait()
		created(w, r, false)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	e := newExporter(t, server.URL, func(c *Config) { c.Calls = calls })
	for round := range rounds {
		arrived.Add(calls)
		var wg sync.WaitGroup
		for call := range calls {
			wg.Go(func() {
				if o := deliverOne(t, e, newItem(fmt.Sprint(round, call))); o.Kind != exporter.Accepted {
					t.Errorf("outcome %+v", o)
				}
			})
		}
		wg.Wait()
	}
	if n := opened.Load(); n > calls*rounds/2 { // net/http may dial while another call's connection becomes free
		t.Errorf("%d connections for %d rounds of %d calls", n, rounds, calls)
	}
}

type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) {
	panic("with sk_test_secret inside")
}

func TestPanic(t *testing.T) {
	o := deliverOne(t, newExporter(t, "http://stripe.invalid", func(c *Config) { c.Transport = panicking{} }), newItem("x"))
	want := exporter.Outcome{
		Kind: exporter.Retry, Signal: exporter.Unreachable, Cost: machine.Counted, Code: "connection_lost", Detail: "panic: with [redacted] inside",
	}
	if o != want {
		t.Errorf("outcome %+v, want %+v", o, want)
	}
}

func TestKeyAndLimits(t *testing.T) {
	e := newExporter(t, "", nil)
	a, b, odd := newItem("a"), newItem("b"), newItem("odd")
	b.Payload = json.RawMessage(`{"customer":"cus_1","meter":"seats","value":1,"timestamp":1}`)
	odd.Payload = json.RawMessage(`{}`)
	if e.Key(&a) == "" || e.Key(&a) == e.Key(&b) || e.Key(&odd) != "" {
		t.Errorf("keys %q, %q, %q: want two that differ and none", e.Key(&a), e.Key(&b), e.Key(&odd))
	}
	if got, want := e.Limits(), (exporter.Limits{Calls: 64, Batch: 1, Rate: 22, Timeout: 30 * time.Second}); got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
	if got := newExporter(t, "", func(c *Config) { c.Rate = -1 }).Limits().Rate; got != 0 {
		t.Errorf("rate %v, want no bound", got)
	}
}

// What a call costs besides the network: parsing, the SDK and classifying.
func BenchmarkDeliver(b *testing.B) {
	items := []machine.Item{newItem("bench")}
	e := newExporter(b, "http://stripe.invalid", func(c *Config) { c.Transport = instant{items[0].Identifier()} })
	b.ReportAllocs()
	for b.Loop() {
		if o := e.Deliver(context.Background(), items); o[0].Kind != exporter.Accepted {
			b.Fatalf("outcome %+v", o[0])
		}
	}
}
