package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
)

// Whatever is in its strings, a batch is JSON that says the same, and the same batch is the same bytes.
func FuzzEncode(f *testing.F) {
	f.Add("tokens", "cus_1", "model", "large")
	f.Add("t\u00f6kens", "cus_\"\\", "a", "<\u2028>")
	f.Add("", "\x00\x7f", "b", "\xff")
	f.Fuzz(func(t *testing.T, meter, customer, key, value string) {
		item := newItem("fuzz")
		e := &event{meter: meter, keys: MeterConfig{"who", "n"}, customer: customer, value: "1.5", timestamp: 1772359200,
			dimensions: map[string]string{"x" + key: value, "y": "z"}}
		batch := []member{{item: &item, event: e}, {item: &item, event: e}}
		body := encode(batch)
		if again := encode(batch); string(again) != string(body) {
			t.Fatalf("%s, then %s", body, again)
		}
		var got struct {
			Events []struct {
				Meter      string `json:"event_name"`
				Identifier string
				Payload    map[string]string
				Timestamp  time.Time
			}
		}
		if err := json.Unmarshal(body, &got); err != nil || len(got.Events) != 2 {
			t.Fatalf("%v in %q", err, body)
		}
		// What isn't valid UTF-8 can't be in a payload, which was JSON.
		as := func(s string) (out string) {
			quoted, _ := json.Marshal(s)
			json.Unmarshal(quoted, &out) //nolint:errcheck // it was just written
			return out
		}
		want := map[string]string{"who": as(customer), "n": "1.5", as("x" + key): as(value), "y": "z"}
		if g := got.Events[1]; g.Meter != as(meter) || g.Identifier != item.Identifier() || !maps.Equal(g.Payload, want) || g.Timestamp.Unix() != e.timestamp {
			t.Fatalf("got %+v, want payload %v", g, want)
		}
	})
}

// What a batch of 100 costs besides the network.
func BenchmarkStreamBatch(b *testing.B) {
	items := newItems(100)
	session := fmt.Sprintf(`{"authentication_token":"t","created":%q,"expires_at":%q}`, time.Now().Format(time.RFC3339), time.Now().Add(time.Hour).Format(time.RFC3339))
	stream := newStreamTo(b, "http://stripe.invalid", func(c *Config) {
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == streamPath {
				return respond(r, 200, "{}"), nil
			}
			return respond(r, 200, session), nil
		})
	})
	b.ReportAllocs()
	for b.Loop() {
		if o := stream.Deliver(context.Background(), items); o[0].Kind != exporter.Accepted {
			b.Fatalf("outcome %+v", o[0])
		}
	}
	b.ReportMetric(float64(b.N*len(items))/b.Elapsed().Seconds(), "events/s")
}

// Eight calls in flight, over the network of this machine, to a stand-in that keeps books.
func BenchmarkStreamToSandbox(b *testing.B) {
	s := sandbox.New(sandbox.Config{Meters: []sandbox.Meter{{EventName: "tokens"}}})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	defer s.Close()
	stream := newStreamTo(b, server.URL, nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range stream.Limits().Calls {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				items := newItems(maxBatch)
				for i := range items {
					items[i] = newItem(fmt.Sprint(n, " ", i))
				}
				for _, o := range stream.Deliver(context.Background(), items) {
					if o.Kind != exporter.Accepted {
						b.Errorf("outcome %+v", o)
					}
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N*maxBatch)/b.Elapsed().Seconds(), "events/s")
	if totals := s.Totals(); totals.BilledAgain != 0 {
		b.Errorf("totals %+v", totals)
	}
}
