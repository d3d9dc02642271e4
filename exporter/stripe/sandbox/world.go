package sandbox

import (
	"strings"
	"sync"
	"time"
)

// scope is what separates one world from another: nothing that is done in one is visible in any other.
type scope struct {
	account string
	live    bool
}

// world is all that exists in one account and mode.
//
// Invariant: every event that an identifier leads to is in events, and every accepted one in exactly one series.
type world struct {
	scope
	cfg      *Config
	born     time.Time // of the sandbox's clock
	limiters limiters

	mu sync.Mutex // guards everything below; held for microseconds, never across I/O

	meters   []*meter          // newest last
	byID     map[string]*meter //
	byName   map[string]*meter // the active meter of an event name, or the newest archived one
	strays   map[string]*meter // stand in for meters that events named and nobody created
	customer map[string]Customer

	events map[string]*event // by identifier; the newest holder of it
	series map[seriesKey]*series
	busy   map[lane]struct{}
	counts Totals

	saved    map[fingerprint]saved
	answers  map[fingerprint]answer // to those of saved that aren't events
	prunedAt time.Time

	problems map[*meter]*window
	notices  []*notice // oldest first
}

func newWorld(sc scope, cfg *Config, now time.Time) *world {
	w := &world{
		scope: sc, cfg: cfg, born: now, limiters: newLimiters(cfg.Limits, sc.live),
		byID: map[string]*meter{}, byName: map[string]*meter{}, strays: map[string]*meter{}, customer: map[string]Customer{},
		events: map[string]*event{}, series: map[seriesKey]*series{}, busy: map[lane]struct{}{},
		saved: map[fingerprint]saved{}, answers: map[fingerprint]answer{}, prunedAt: now,
		problems: map[*meter]*window{},
	}
	for _, m := range cfg.Meters {
		if (m.Account == "" || m.Account == sc.account) && m.Mode.includes(sc.live) {
			w.addMeter(m, now)
		}
	}
	for _, c := range cfg.Customers {
		if (c.Account == "" || c.Account == sc.account) && c.Mode.includes(sc.live) {
			c.created = now
			w.customer[c.ID] = c
		}
	}
	return w
}

// addMeter needs mu, or a world that nobody else has seen yet. An id that is taken is replaced.
func (w *world) addMeter(m Meter, now time.Time) *meter {
	added := &meter{Meter: m.withDefaults(w.live), created: now, updated: now}
	if added.Status == StatusInactive {
		added.deactivatedAt = now
	}
	if old := w.byID[added.ID]; old != nil {
		if w.byName[old.EventName] == old {
			delete(w.byName, old.EventName)
		}
		*old = *added
		added = old
	} else {
		w.meters = append(w.meters, added)
	}
	w.byID[added.ID] = added
	if current := w.byName[added.EventName]; current == nil || added.Status == StatusActive {
		w.byName[added.EventName] = added
	}
	return added
}

// stray is the meter of events whose meter doesn't exist. It needs mu.
func (w *world) stray(eventName string) *meter {
	m := w.strays[eventName]
	if m == nil {
		eventName = strings.Clone(eventName)
		m = &meter{Meter: Meter{EventName: eventName, CustomerKey: "stripe_customer_id", ValueKey: "value"}}
		w.strays[eventName] = m
	}
	return m
}

// knows needs mu.
func (w *world) knows(customer string) bool {
	if _, ok := w.customer[customer]; ok {
		return true
	}
	return w.cfg.AnyCustomer != "" && matches(w.cfg.AnyCustomer, customer)
}

// world returns the world of a scope, made on first use.
func (s *Sandbox) world(sc scope) *world {
	s.worldsMu.RLock()
	w := s.worlds[sc]
	s.worldsMu.RUnlock()
	if w != nil {
		return w
	}
	s.worldsMu.Lock()
	defer s.worldsMu.Unlock()
	if w = s.worlds[sc]; w == nil {
		w = newWorld(sc, &s.cfg, s.Now())
		s.worlds[sc] = w
	}
	return w
}

func (s *Sandbox) allWorlds() []*world {
	s.worldsMu.RLock()
	defer s.worldsMu.RUnlock()
	all := make([]*world, 0, len(s.worlds))
	for _, w := range s.worlds {
		all = append(all, w)
	}
	return all
}
