package stripe

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(r *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

// newStreamTo makes a Stream, in the sandbox's place or another's.
func newStreamTo(t testing.TB, url string, change func(*Config)) *Stream {
	t.Helper()
	e := newExporter(t, url, func(c *Config) {
		c.Stream = true
		if change != nil {
			change(c)
		}
	})
	return e.Sender().(*Stream)
}

// streamed makes a handler that gives sessions and lets serve answer the batches.
func streamed(serve http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == streamPath {
			serve(w, r)
			return
		}
		fmt.Fprintf(w, `{"object":"v2.billing.meter_event_session","authentication_token":"token_%d","created":%q,"expires_at":%q,"livemode":false}`,
			n.Add(1), time.Now().Format(time.RFC3339), time.Now().Add(15*time.Minute).Format(time.RFC3339))
	}
}

func newItems(n int) []machine.Item {
	items := make([]machine.Item, n)
	for i := range items {
		items[i] = newItem(fmt.Sprint("batch ", i))
	}
	return items
}

func TestStream(t *testing.T) {
	s, base := newSandbox(t, sandbox.Config{})
	stream := newStreamTo(t, base.cfg.URL, nil)
	if got := stream.Limits(); got.Calls != 8 || got.Batch != 100 || got.Timeout != 30*time.Second {
		t.Errorf("limits %+v", got)
	}
	if _, keyed := exporter.Exporter(stream).(exporter.Keyed); keyed {
		t.Error("a keyed exporter's items are sent alone")
	}
	items := newItems(100)
	items[7].Mode = "live"
	items[8].Payload = json.RawMessage(`{}`)
	for i, o := range stream.Deliver(t.Context(), items) {
		switch {
		case i == 7 && (o.Kind != exporter.Quarantined || o.Code != "mode_mismatch"), i == 8 && (o.Kind != exporter.Quarantined || o.Code != "no_meter"):
			t.Errorf("item %d: outcome %+v", i, o)
		case i != 7 && i != 8 && (o.Kind != exporter.Accepted || !strings.HasPrefix(o.Ref, "stream")):
			t.Errorf("item %d: outcome %+v, want accepted by the stream", i, o)
		}
	}
	if totals := s.Totals(); totals.Billed != 98 || totals.Received != 98 {
		t.Errorf("totals %+v, want 98 billed", totals)
	}
	// Sent again, each is taken as the one that is there.
	for _, o := range stream.Deliver(t.Context(), items[10:20]) {
		if o.Kind != exporter.Accepted {
			t.Errorf("outcome %+v", o)
		}
	}
	if totals := s.Totals(); totals.Billed != 98 || totals.BilledAgain != 0 {
		t.Errorf("totals %+v after a resend", totals)
	}
}

// What is written is what Stripe documents, whatever is in the strings.
func TestStreamWire(t *testing.T) {
	requests := make(chan *http.Request, 1)
	bodies := make(chan []byte, 1)
	server := newServer(t, streamed(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
		requests <- r
		io.WriteString(w, "{}") //nolint:errcheck // the client sees it
	}))
	stream := newStreamTo(t, server.URL, func(c *Config) { c.Meters = map[string]MeterConfig{"tökens": {CustomerKey: "who"}} })
	item := newItem("wire")
	item.Payload = json.RawMessage(`{"customer":"cus_\"1\\","meter":"tökens","value":1.5,"timestamp":1772359200,"dimensions":{"b":"2","a":"\u003c1>"}}`)
	stream.e.now = func() time.Time { return time.Unix(1772359200, 0) }
	if o := stream.Deliver(t.Context(), []machine.Item{item}); o[0].Kind != exporter.Accepted {
		t.Fatalf("outcome %+v", o[0])
	}
	r := <-requests
	if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer token_1" || r.Header.Get("Content-Type") != "application/json" ||
		!strings.HasPrefix(r.Header.Get("Idempotency-Key"), "weir_batch_") || r.Header.Get("Stripe-Version") == "" {
		t.Errorf("%s %v", r.Method, r.Header)
	}
	var got, want any
	body := <-bodies
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	wanted := `{"events":[{"event_name":"tökens","identifier":"` + item.Identifier() + `","payload":{"who":"cus_\"1\\","value":"1.5","a":"<1>","b":"2"},"timestamp":"2026-03-01T10:00:00Z"}]}`
	if err := json.Unmarshal([]byte(wanted), &want); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("body %v\nwant %v", got, want)
	}
}

// Every answer to a batch, and what it means for each of its items.
func TestStreamAnswers(t *testing.T) {
	v2 := func(code, kind, message string) string {
		return fmt.Sprintf(`{"error":{"code":%q,"type":%q,"message":%q}}`, code, kind, message)
	}
	tests := []struct {
		name  string
		serve http.HandlerFunc
		want  want
	}{
		{"200", answers(200, `{}`), final(exporter.Accepted, "")},
		{"200 empty", answers(200, ``), retry(unreachable, machine.Counted, "unreadable", 0)},
		{"200 html", answers(200, html), retry(unreachable, machine.Counted, "unreadable", 0)},
		{"200 list", answers(200, `[]`), retry(unreachable, machine.Counted, "unreadable", 0)},
		{"202", answers(202, `{}`), retry(unreachable, machine.Counted, "unreadable", 0)},
		{"401 of the key", answers(401, v2("", "", "No such token")), retry(noCredentials, machine.Unsent, "http_401", 0)},
		{"404", answers(404, v2("", "invalid_request_error", "Unrecognized request URL")), retry(unreachable, machine.Unsent, "http_404", 0)},
		{"409", answers(409, v2("too_many_concurrent_requests", "", "one at a time")), retry(healthy, machine.Waived, "too_many_concurrent_requests", 0)},
		{"429", answers(429, v2("rate_limit", "", "slow down"), "Retry-After", "7"), retry(rateLimited, machine.Unsent, "rate_limit", 7*time.Second)},
		{"500", answers(500, v2("", "api_error", "oops")), retry(unreachable, machine.Counted, "http_500", 0)},
		{"502 html", answers(502, html), retry(unreachable, machine.Counted, "http_502", 0)},
		{"lost", cuts("", true), retry(unreachable, machine.Counted, "connection_lost", 0)},
		{"cut short", cuts("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{", false), retry(unreachable, machine.Counted, "unreadable", 0)},
		{"400, each alone too", answers(400, v2("brand_new", "invalid_request_error", "odd")), final(exporter.Quarantined, "brand_new")},
		{"400, a duplicate of something else", answers(400, refusal("", "An event already exists with identifier weir_00.")), final(exporter.Quarantined, "http_400")},
		{"413 of a proxy", answers(413, html), retry(unreachable, machine.Counted, "http_413", 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stream := newStreamTo(t, newServer(t, streamed(tt.serve)).URL, nil)
			for i, o := range stream.Deliver(t.Context(), newItems(3)) {
				if o.After < tt.want.After || o.After > tt.want.After+tt.want.After/4 {
					t.Errorf("item %d: after %v, want %v", i, o.After, tt.want.After)
				}
				o.After, o.Detail, o.Ref = 0, "", ""
				w := tt.want
				w.After = 0
				if o != w {
					t.Errorf("item %d: outcome %+v, want %+v", i, o, w)
				}
			}
		})
	}
}

// One event that Stripe can't read doesn't keep the others back.
func TestStreamFindsTheBadOne(t *testing.T) {
	items := newItems(100)
	bad := items[37].Identifier()
	var calls atomic.Int32
	server := newServer(t, streamed(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), bad) {
			answers(400, refusal("", "Invalid string"))(w, r)
			return
		}
		io.WriteString(w, "{}") //nolint:errcheck // the client sees it
	}))
	for i, o := range newStreamTo(t, server.URL, nil).Deliver(t.Context(), items) {
		if want := i == 37; want != (o.Kind == exporter.Quarantined) || !want && o.Kind != exporter.Accepted {
			t.Errorf("item %d: outcome %+v", i, o)
		}
	}
	if n := calls.Load(); n > 15 {
		t.Errorf("%d calls", n)
	}
}

// A batch whose answer is lost is billed once, however its items come together the next time.
func TestStreamAnswerLost(t *testing.T) {
	for _, when := range []sandbox.When{sandbox.Before, sandbox.After} {
		s, base := newSandbox(t, sandbox.Config{})
		stream := newStreamTo(t, base.cfg.URL, func(c *Config) {
			c.Transport = &http.Transport{DisableKeepAlives: true} // net/http repeats what a kept connection has lost
		})
		if _, err := s.AddFault(sandbox.Rule{Match: sandbox.Match{First: 1, PathPrefix: streamPath}, Action: sandbox.Action{Kind: sandbox.FaultReset, When: when}}); err != nil {
			t.Fatal(err)
		}
		items := newItems(30)
		for _, o := range stream.Deliver(t.Context(), items) {
			if o.Kind != exporter.Retry || o.Signal != unreachable || o.Cost != machine.Counted {
				t.Fatalf("outcome %+v, want a retry that counts", o)
			}
		}
		for i := range items {
			items[i] = again(items[i])
		}
		for _, batch := range [][]machine.Item{items[:7], items[7:]} {
			for _, o := range stream.Deliver(t.Context(), batch) {
				if o.Kind != exporter.Accepted {
					t.Errorf("outcome %+v", o)
				}
			}
		}
		if totals := s.Totals(); totals.Billed != 30 || totals.BilledAgain != 0 {
			t.Errorf("reset %s: totals %+v, want 30 billed once", when, totals)
		}
	}
}

// Cancellations go out beside the batch.
func TestStreamCancels(t *testing.T) {
	s, base := newSandbox(t, sandbox.Config{})
	original := newItem("original")
	stream := newStreamTo(t, base.cfg.URL, func(c *Config) {
		c.Originals = ledger{original.Identifier(): standing(machine.Accepted, time.Minute)}
	})
	stream.Deliver(t.Context(), []machine.Item{original})
	for i, o := range stream.Deliver(t.Context(), []machine.Item{newItem("a"), newCancel("c", original.Identifier(), ""), newItem("b")}) {
		if o.Kind != exporter.Accepted || strings.HasPrefix(o.Ref, "stream") == (i == 1) {
			t.Errorf("item %d: outcome %+v", i, o)
		}
	}
	if totals := s.Totals(); totals.Billed != 2 || totals.Cancelled != 1 {
		t.Errorf("totals %+v", totals)
	}
}

// A refusal after an attempt that may have been taken is a doubt, in the stream too.
func TestStreamDoubts(t *testing.T) {
	stream := newStreamTo(t, newServer(t, streamed(answers(400, refusal("", "odd")))).URL, nil)
	items := newItems(2)
	items[1] = again(items[1])
	o := stream.Deliver(t.Context(), items)
	if o[0].Kind != exporter.Quarantined || o[1].Kind != exporter.Uncertain {
		t.Errorf("outcomes %v, %v; want quarantined and uncertain", o[0], o[1])
	}
}
