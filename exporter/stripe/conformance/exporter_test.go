package conformance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/machine"
)

// recent is a timestamp that Stripe takes, in Unix seconds.
func recent() string { return strconv.FormatInt(time.Now().Unix(), 10) }

// recorder keeps what was asked and answered.
type recorder struct {
	mu    sync.Mutex
	calls []string // method, path and status
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(request)
	if err == nil {
		r.mu.Lock()
		r.calls = append(r.calls, fmt.Sprint(request.Method, " ", request.URL.Path, " ", response.StatusCode))
		r.mu.Unlock()
	}
	return response, err
}

// answered checks that the latest call was made and answered with 200.
func (r *recorder) answered(t *testing.T, call string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.calls); n == 0 || r.calls[n-1] != call+" 200" {
		t.Errorf("calls %q, want %s 200 at the end", r.calls, call)
	}
}

func newItem(ref, kind, payload string) machine.Item {
	return machine.Item{
		ID: 1, Token: 1, Attempts: 1, FirstAttempt: true, Exporter: "stripe", SubjectKind: kind, Mode: "test",
		Identity: sha256.Sum256([]byte(ref)), Payload: json.RawMessage(payload),
	}
}

// The exporter's requests fit the description, and both answer them so that it understands.
func TestExporter(t *testing.T) {
	mock := stripeMock(t)
	_, ours := standIn(t)
	usage := newItem("usage", "usage", `{"customer":"cus_1","meter":"tokens","value":"25.50","timestamp":`+recent()+`,"dimensions":{"model":"large"}}`)
	negative := newItem("negative", "usage", `{"customer":"cus_1","meter":"tokens","value":-2,"timestamp":`+recent()+`}`)
	cancel := newItem("cancel", "adjustment", `{"meter":"tokens","cancel":"`+usage.Identifier()+`","received_at":`+recent()+`}`)
	for name, url := range map[string]string{"stripe-mock": mock, "stand-in": ours} {
		t.Run(name, func(t *testing.T) {
			seen := &recorder{}
			e, err := stripe.New(stripe.Config{Key: "sk_test_weir", URL: url, Transport: seen})
			if err != nil {
				t.Fatal(err)
			}
			deliver := func(item machine.Item) exporter.Outcome { return e.Deliver(t.Context(), []machine.Item{item})[0] }
			for _, item := range []machine.Item{usage, negative} {
				if o := deliver(item); o.Kind != exporter.Accepted {
					t.Errorf("outcome %+v, want accepted", o)
				}
				seen.answered(t, "POST /v1/billing/meter_events")
			}
			// stripe-mock answers every cancellation with one and the same identifier, which isn't the one that was sent.
			want := map[string]exporter.Kind{"stripe-mock": exporter.Retry, "stand-in": exporter.Accepted}[name]
			if o := deliver(cancel); o.Kind != want {
				t.Errorf("cancellation: outcome %+v, want %v", o, want)
			}
			seen.answered(t, "POST /v1/billing/meter_event_adjustments")
			meters, err := e.Meters(t.Context())
			if err != nil || len(meters) == 0 || meters[0].ID == "" || meters[0].Event == "" || meters[0].CustomerKey == "" || meters[0].ValueKey == "" || meters[0].Formula == "" {
				t.Errorf("meters %+v, %v", meters, err)
			}
			seen.answered(t, "GET /v1/billing/meters")
		})
	}
}

// Both refuse a wrong key in words that stop the lane instead of its items.
func TestExporterRefused(t *testing.T) {
	mock := stripeMock(t)
	_, ours := standIn(t)
	for name, url := range map[string]string{"stripe-mock": mock, "stand-in": ours} {
		e, err := stripe.New(stripe.Config{Key: "sk_test_other", URL: url, Transport: unkeyed{}})
		if err != nil {
			t.Fatal(err)
		}
		o := e.Deliver(t.Context(), []machine.Item{newItem("x", "usage", `{"customer":"cus_1","meter":"tokens","value":1,"timestamp":`+recent()+`}`)})[0]
		if o.Kind != exporter.Retry || o.Signal != exporter.Unauthorized || o.Cost != machine.Unsent {
			t.Errorf("%s: outcome %+v, want retry, unauthorized, unsent", name, o)
		}
	}
}

// unkeyed loses the key on the way: stripe-mock takes any key, but not none.
type unkeyed struct{}

func (unkeyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	return http.DefaultTransport.RoundTrip(r)
}
