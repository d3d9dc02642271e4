package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// discard is a ResponseWriter that costs nothing.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// eventRequest builds the request that the SDK would send.
func eventRequest(i int) *http.Request {
	id := fmt.Sprintf("weir_%064x", i)
	body := fmt.Sprintf("event_name=tokens&identifier=%s&payload[stripe_customer_id]=cus_%d&payload[value]=25&timestamp=1772625600", id, i%1000)
	r := httptest.NewRequest(http.MethodPost, "/v1/billing/meter_events", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer sk_live_weir")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Idempotency-Key", id+"-0")
	return r
}

// BenchmarkEventV1 is the handler alone: everything but the connection.
func BenchmarkEventV1(b *testing.B) {
	h := New(Config{Start: noon, Meters: []Meter{tokens}, Concurrency: ConcurrencyConflict}).Handler()
	requests := make([]*http.Request, 1024)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if i%len(requests) == 0 {
			b.StopTimer()
			for j := range requests {
				requests[j] = eventRequest(i + j)
			}
			b.StartTimer()
		}
		w := discard{header: http.Header{}}
		h.ServeHTTP(&w, requests[i%len(requests)])
		if w.status != 200 {
			b.Fatal(w.status)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkStream is the handler alone, in batches of 100.
func BenchmarkStream(b *testing.B) {
	s := New(Config{Start: noon, Meters: []Meter{tokens}})
	token, _ := s.sessions.open(scope{DefaultAccount, true}, s.Now())
	h := s.StreamHandler()
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		b.StopTimer()
		var body bytes.Buffer
		for j := range 100 {
			fmt.Fprintf(&body, `,{"event_name":"tokens","identifier":"weir_%064x","payload":{"stripe_customer_id":"cus_%d","value":"1"},"timestamp":"2026-03-04T12:00:00Z"}`, i*100+j, j)
		}
		r := httptest.NewRequest(http.MethodPost, streamPath, io.MultiReader(strings.NewReader(`{"events":[`), bytes.NewReader(body.Bytes()[1:]), strings.NewReader("]}")))
		r.Header.Set("Authorization", "Bearer "+token)
		b.StartTimer()
		w := discard{header: http.Header{}}
		h.ServeHTTP(&w, r)
		if w.status != 200 {
			b.Fatal(w.status)
		}
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkLoopback is a whole round trip on connections that stay open.
func BenchmarkLoopback(b *testing.B) {
	_, server := start(b, Config{Start: noon})
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	var next atomic.Int64
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := eventRequest(int(next.Add(1)))
			r.URL, _ = r.URL.Parse(server.URL + r.URL.Path)
			resp, err := transport.RoundTrip(r)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkMemory reports the heap that an event with an Idempotency-Key leaves behind.
func BenchmarkMemory(b *testing.B) {
	s := New(Config{Start: noon, Meters: []Meter{tokens}})
	before := heap()
	for i := 0; i < b.N; i++ {
		w := discard{header: http.Header{}}
		s.Handler().ServeHTTP(&w, eventRequest(i))
		if w.status != 200 {
			b.Fatal(w.status)
		}
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "heap-B/event")
	runtime.KeepAlive(s)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
