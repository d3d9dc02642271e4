package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// receiver stands for the provider: it takes everything and notes when each item first came.
type receiver struct {
	url    string
	server http.Server

	mu      sync.Mutex
	delay   time.Duration // of each answer
	first   map[int64]time.Time
	repeats int
}

func receive() (*receiver, error) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the receiver: %w", err)
	}
	r := &receiver{url: "http://" + socket.Addr().String()}
	r.reset(0)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+eventsPath, r.take)
	mux.HandleFunc("GET /v1/billing/meters", func(w http.ResponseWriter, _ *http.Request) { answer(w, meters) })
	r.server.Handler = mux
	go r.server.Serve(socket) //nolint:errcheck // it ends with close
	return r, nil
}

// take notes the time before anything else.
func (r *receiver) take(w http.ResponseWriter, request *http.Request) {
	now := time.Now()
	number, err := strconv.ParseInt(request.PostFormValue("payload[value]"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(r.note(number, now)):
	case <-request.Context().Done():
		return
	}
	timestamp, _ := strconv.ParseInt(request.PostFormValue("timestamp"), 10, 64)
	answer(w, map[string]any{
		"object": "billing.meter_event", "identifier": request.PostFormValue("identifier"), "livemode": true,
		"event_name": request.PostFormValue("event_name"), "created": now.Unix(), "timestamp": timestamp,
		"payload": map[string]string{
			"stripe_customer_id": request.PostFormValue("payload[stripe_customer_id]"),
			"value":              request.PostFormValue("payload[value]"),
		},
	})
}

// meters is the only meter, which weir looks up before it sends.
var meters = map[string]any{
	"object": "list", "url": "/v1/billing/meters", "has_more": false,
	"data": []any{map[string]any{
		"object": "billing.meter", "id": "mtr_requests", "event_name": meter, "display_name": meter,
		"status": "active", "livemode": true, "event_time_window": nil,
		"default_aggregation": map[string]string{"formula": "sum"},
		"customer_mapping":    map[string]string{"type": "by_id", "event_payload_key": "stripe_customer_id"},
		"value_settings":      map[string]string{"event_payload_key": "value"},
	}},
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // who asked has gone
}

// note says how long the answer is to take.
func (r *receiver) note(number int64, at time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.first[number]; ok {
		r.repeats++
	} else {
		r.first[number] = at
	}
	return r.delay
}

// reset begins anew, with answers that take delay.
func (r *receiver) reset(delay time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first, r.repeats, r.delay = map[int64]time.Time{}, 0, delay
}

// count is how many items have come.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.first)
}

// arrivals are the times of the items' first requests, and how many requests were repeats.
func (r *receiver) arrivals() (map[int64]time.Time, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.first), r.repeats
}

func (r *receiver) close() { r.server.Close() }
