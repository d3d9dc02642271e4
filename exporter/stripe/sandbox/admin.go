package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// adminRoutes lists the endpoints under /_sandbox/. They need no key and no fault touches them.
func (s *Sandbox) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(*http.Request) (any, error){
		"GET /_sandbox/health":         s.adminHealth,
		"GET /_sandbox/summary":        s.adminSummary,
		"GET /_sandbox/clock":          s.adminClock,
		"POST /_sandbox/clock":         s.adminMoveClock,
		"GET /_sandbox/faults":         s.adminFaults,
		"POST /_sandbox/faults":        s.adminAddFault,
		"DELETE /_sandbox/faults":      s.adminClearFaults,
		"DELETE /_sandbox/faults/{id}": s.adminRemoveFault,
		"POST /_sandbox/down":          s.adminDown,
		"POST /_sandbox/seed":          s.adminSeed,
		"POST /_sandbox/publish":       s.adminPublish,
		"POST /_sandbox/reset":         s.adminReset,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := handle(r)
			w.Header().Set("Content-Type", "application/json")
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				v = map[string]string{"error": err.Error()}
			}
			json.NewEncoder(w).Encode(v) //nolint:errcheck // the reader has gone
		})
	}
	mux.HandleFunc("GET /_sandbox/ledger", s.adminLedger)
	return mux
}

func (s *Sandbox) adminHealth(*http.Request) (any, error) {
	return map[string]any{"status": "ok", "down": s.down.Load(), "now": s.Now().UTC()}, nil
}

func (s *Sandbox) adminClock(*http.Request) (any, error) {
	return map[string]any{"now": s.Now().UTC(), "offset": time.Duration(s.clock.offset.Load()).String()}, nil
}

// adminMoveClock takes {"advance":"25h"} or {"set":"2026-01-02T15:04:05Z"}.
func (s *Sandbox) adminMoveClock(r *http.Request) (any, error) {
	var in struct {
		Advance string    `json:"advance"`
		Set     time.Time `json:"set"`
	}
	if err := readJSON(r, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Advance != "" && in.Set.IsZero():
		d, err := time.ParseDuration(in.Advance)
		if err != nil {
			return nil, fmt.Errorf("advance: %w", err)
		}
		s.Advance(d)
	case in.Advance == "" && !in.Set.IsZero():
		s.SetTime(in.Set)
	default:
		return nil, fmt.Errorf(`clock: need either "advance" (a duration such as "25h") or "set" (a time)`)
	}
	return s.adminClock(r)
}

func (s *Sandbox) adminFaults(*http.Request) (any, error) {
	return map[string]any{"faults": s.Faults()}, nil
}

// adminAddFault takes one rule or a list of rules.
func (s *Sandbox) adminAddFault(r *http.Request) (any, error) {
	var raw json.RawMessage
	if err := readJSON(r, &raw); err != nil {
		return nil, err
	}
	var rules []Rule
	if err := unmarshalOneOrMany(raw, &rules); err != nil {
		return nil, err
	}
	for _, rule := range rules {
		if err := rule.validate(); err != nil {
			return nil, fmt.Errorf("fault %q: %w", rule.Name, err)
		}
	}
	ids := make([]int, 0, len(rules))
	for _, rule := range rules {
		id, err := s.AddFault(rule)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return map[string]any{"ids": ids}, nil
}

func (s *Sandbox) adminClearFaults(r *http.Request) (any, error) {
	s.ClearFaults()
	return s.adminFaults(r)
}

func (s *Sandbox) adminRemoveFault(r *http.Request) (any, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || !s.RemoveFault(id) {
		return nil, fmt.Errorf("fault %q: there is none with this id", r.PathValue("id"))
	}
	return s.adminFaults(r)
}

// adminDown takes {"down":true}.
func (s *Sandbox) adminDown(r *http.Request) (any, error) {
	var in struct {
		Down bool `json:"down"`
	}
	if err := readJSON(r, &in); err != nil {
		return nil, err
	}
	s.Down(in.Down)
	return s.adminHealth(r)
}

func (s *Sandbox) adminPublish(r *http.Request) (any, error) {
	if err := s.Publish(r.Context()); err != nil {
		return nil, err
	}
	return map[string]string{"status": "ok"}, nil
}

func (s *Sandbox) adminReset(r *http.Request) (any, error) {
	s.Reset()
	return s.adminHealth(r)
}

// adminSummary answers with Totals and a usage line for each account, mode and meter.
func (s *Sandbox) adminSummary(*http.Request) (any, error) {
	return struct {
		Totals
		Meters []Usage `json:"meters"`
	}{s.Totals(), s.Usage()}, nil
}

// adminLedger streams entries as NDJSON; ?identifier= picks one, ?again=1 those that were billed twice.
func (s *Sandbox) adminLedger(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	if id := r.FormValue("identifier"); id != "" {
		if e, ok := s.Entry(id); ok {
			out.Encode(e) //nolint:errcheck // the reader has gone
		}
		return
	}
	for e := range s.Entries() {
		if r.FormValue("again") != "" && e.Billed < 2 {
			continue
		}
		if out.Encode(e) != nil {
			return
		}
	}
}
