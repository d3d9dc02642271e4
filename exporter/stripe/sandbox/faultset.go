package sandbox

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// faultSet holds the rules in force. With none, requests pass without touching the lock.
type faultSet struct {
	active atomic.Bool // whether rules has any; changes under mu

	mu    sync.Mutex
	rng   *rand.Rand
	rules []*Rule
	last  int // id given last
}

func newFaultSet(seed uint64) *faultSet {
	return &faultSet{rng: rand.New(rand.NewPCG(seed, seed))}
}

// AddFault puts a rule in force and returns its id. It comes behind those that are there.
func (s *Sandbox) AddFault(r Rule) (int, error) {
	if err := r.validate(); err != nil {
		return 0, err
	}
	f := s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	r.ID, r.Matched, r.Fired = f.last, 0, 0
	r.Action = r.Action.withDefaults()
	f.rules = append(f.rules, &r)
	f.active.Store(true)
	return r.ID, nil
}

// RemoveFault ends a rule; it says whether there was one.
func (s *Sandbox) RemoveFault(id int) bool {
	f := s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.rules {
		if r.ID == id {
			f.rules = append(f.rules[:i:i], f.rules[i+1:]...)
			f.active.Store(len(f.rules) > 0)
			return true
		}
	}
	return false
}

// ClearFaults ends all rules. Down is another matter.
func (s *Sandbox) ClearFaults() {
	f := s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
	f.active.Store(false)
}

// Faults returns the rules in force with their counters.
func (s *Sandbox) Faults() []Rule {
	f := s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Rule, len(f.rules))
	for i, r := range f.rules {
		out[i] = *r
	}
	return out
}

// Down(true) answers every API request with a RST until Down(false). The admin endpoints stay up.
func (s *Sandbox) Down(down bool) { s.down.Store(down) }

// early says that a rule refuses without having to look into the body.
func (r *Rule) early() bool {
	return r.Action.Kind == FaultRefuse && !r.Match.needsEvents()
}

func (m *Match) needsEvents() bool { return m.Customer != "" || m.Meter != "" || m.Identifier != "" }

// refuse applies the early rules; true means that the connection is to be closed unread.
func (f *faultSet) refuse(c *call) bool {
	if !f.active.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := c.sandbox.Now()
	for _, r := range f.rules {
		if r.early() && r.selects(c, now) && f.fires(r) {
			return true
		}
	}
	return false
}

// plan applies the other rules. It is called once a request, since it counts.
func (f *faultSet) plan(c *call) plan {
	var p plan
	if !f.active.Load() {
		return p
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := c.sandbox.Now()
	for _, r := range f.rules {
		if r.early() || (r.Action.Kind != FaultDelay && p.action != nil) || !r.selects(c, now) || !f.fires(r) {
			continue
		}
		if r.Action.Kind == FaultDelay {
			p.delays[r.Action.When.index()] += r.Action.Delay
			continue
		}
		action := r.Action
		p.action = &action
	}
	return p
}

// selects evaluates everything but the counters and the dice.
func (r *Rule) selects(c *call, now time.Time) bool {
	m := &r.Match
	if m.Method != "" && !strings.EqualFold(m.Method, c.request.Method) ||
		!strings.HasPrefix(c.request.URL.Path, m.PathPrefix) ||
		!m.From.IsZero() && now.Before(m.From) ||
		!m.Until.IsZero() && !now.Before(m.Until) {
		return false
	}
	if !m.needsEvents() {
		return true
	}
	for i := range c.events {
		in := &c.events[i]
		if (m.Meter == "" || matches(m.Meter, in.eventName)) &&
			(m.Identifier == "" || matches(m.Identifier, in.identifier)) &&
			(m.Customer == "" || matches(m.Customer, c.customerOf(in))) {
			return true
		}
	}
	return false
}

// fires counts a match and decides whether it is this one's turn. It needs mu.
func (f *faultSet) fires(r *Rule) bool {
	m := &r.Match
	r.Matched++
	turn := r.Matched - m.Skip
	if turn <= 0 || m.First > 0 && turn > m.First || m.Every > 1 && turn%m.Every != 0 {
		return false
	}
	if m.Probability > 0 && f.rng.Float64() >= m.Probability {
		return false
	}
	r.Fired++
	return true
}
