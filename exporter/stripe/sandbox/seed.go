package sandbox

import (
	"fmt"
	"net/http"
	"time"
)

// Seed is what Sandbox.Seed adds and the seed endpoint reads.
type Seed struct {
	Meters    []Meter    `json:"meters"`
	Customers []Customer `json:"customers"`
}

// Seed adds meters and customers to the accounts and modes that they name: DefaultAccount and both modes where they
// name none. A meter whose id is taken replaces that one.
func (s *Sandbox) Seed(seed Seed) error {
	for _, m := range seed.Meters {
		if err := m.validate(); err != nil {
			return fmt.Errorf("meter %q: %w", m.EventName, err)
		}
	}
	for _, c := range seed.Customers {
		if c.ID == "" {
			return fmt.Errorf("customer %q: need an id", c.Name)
		}
	}
	now := s.Now()
	for _, live := range []bool{false, true} {
		for _, m := range seed.Meters {
			if !m.Mode.includes(live) {
				continue
			}
			if err := s.world(scope{or(m.Account, DefaultAccount), live}).seedMeter(m, now); err != nil {
				return fmt.Errorf("meter %q: %w", m.EventName, err)
			}
		}
		for _, c := range seed.Customers {
			if c.Mode.includes(live) {
				w := s.world(scope{or(c.Account, DefaultAccount), live})
				c.created = now
				w.mu.Lock()
				w.customer[c.ID] = c
				w.mu.Unlock()
			}
		}
	}
	return nil
}

// seedMeter refuses a second active meter of one event name, as creating it through the API would.
func (w *world) seedMeter(m Meter, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := m.withDefaults(w.live).ID
	if old := w.byName[m.EventName]; old != nil && old.ID != id && old.Status == StatusActive && m.Status != StatusInactive {
		return fmt.Errorf("%s is active under this event name already; give its id to replace it, or deactivate it", old.ID)
	}
	w.addMeter(m, now)
	return nil
}

func (s *Sandbox) adminSeed(r *http.Request) (any, error) {
	var seed Seed
	if err := readJSON(r, &seed); err != nil {
		return nil, err
	}
	if err := s.Seed(seed); err != nil {
		return nil, err
	}
	return map[string]int{"meters": len(seed.Meters), "customers": len(seed.Customers)}, nil
}
