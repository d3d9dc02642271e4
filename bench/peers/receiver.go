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
	first   map[int64]time.Time
	repeats int
}

func receive() (*receiver, error) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the receiver: %w", err)
	}
	r := &receiver{url: "http://" + socket.Addr().String()}
	r.forget()
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+eventsPath, r.take)
	mux.HandleFunc("GET /v1/billing/meters", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"object": "list", "url": "/v1/billing/meters", "has_more": false, "data": []any{}})
	})
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
	r.note(number, now)
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

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // who asked has gone
}

func (r *receiver) note(number int64, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.first[number]; ok {
		r.repeats++
		return
	}
	r.first[number] = at
}

// forget begins anew.
func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first, r.repeats = map[int64]time.Time{}, 0
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
