package sandbox

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"time"
)

// note records that a request carried the identifier, whatever will become of it.
func (w *world) note(identifier string, arrived time.Time) {
	if identifier == "" || len(identifier) > maxName {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Received++
	if e := w.events[identifier]; e != nil {
		e.received++
		return
	}
	w.counts.Identifiers++
	e := &event{identifier: strings.Clone(identifier), firstReceived: arrived.UnixNano(), received: 1}
	w.events[e.identifier] = e
}

// submit takes an event or refuses it. What it refuses leaves no trace but the note.
func (w *world) submit(in *incoming, version int, arrived, now time.Time) (*event, *apiError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.check(in, now)
	for _, p := range c.problems {
		if w.cfg.Behaviour.phase(p.code) == Sync {
			return nil, p.refuse(version)
		}
	}
	if w.taken(in.identifier, now) {
		if version == 2 {
			return nil, errDuplicateV2()
		}
		return nil, errDuplicate(in.identifier)
	}
	return w.accept(&c, arrived, now), nil
}

// taken says whether the identifier still belongs to an accepted event. It needs mu.
func (w *world) taken(identifier string, now time.Time) bool {
	e := w.events[identifier]
	if e == nil || e.state == seen || (e.cancelled && w.cfg.Behaviour.ReuseCancelled) {
		return false
	}
	return now.Sub(time.Unix(0, e.acceptedAt)) < w.cfg.UniquenessWindow
}

// accept makes a usage event of what was checked. A problem that is left makes it a rejected one, reported later.
// It needs mu.
func (w *world) accept(c *checked, arrived, now time.Time) *event {
	e := w.holder(c.identifier, arrived)
	e.series = w.seriesOf(c.meter, c.customer)
	e.series.events = append(e.series.events, e)
	e.value = strings.Clone(c.value)
	if extra := extraPayload(c); extra != "" {
		e.unusual().extra = extra
	}
	e.timestamp = c.timestamp
	e.acceptedAt = now.UnixNano()
	if len(c.problems) > 0 {
		e.state, e.unusual().rejected = rejected, c.problems[0].code
		w.counts.Rejected++
		w.report(c.meter, e.identifier, c.problems[0], now)
		return e
	}
	e.state = billed
	w.counts.Billed++
	if e.again() {
		w.counts.BilledAgain++
	}
	return e
}

// holder returns a fresh event under the identifier; one that held it before stays reachable through it.
func (w *world) holder(identifier string, arrived time.Time) *event {
	if identifier == "" {
		identifier = newIdentifier()
	}
	old := w.events[identifier]
	if old != nil && old.state == seen {
		return old
	}
	e := &event{firstReceived: arrived.UnixNano()}
	if old != nil {
		e.identifier, e.unusual().earlier = old.identifier, old
	} else {
		e.identifier = strings.Clone(identifier)
		e.received = 1
		w.counts.Identifiers++
		w.counts.Received++
	}
	w.events[e.identifier] = e
	return e
}

func (w *world) seriesOf(m *meter, customer string) *series {
	if s := w.series[seriesKey{m, customer}]; s != nil {
		return s
	}
	s := &series{meter: m, customer: strings.Clone(customer)}
	w.series[seriesKey{m, s.customer}] = s
	return s
}

func extraPayload(c *checked) string {
	if len(c.payload) <= 2 && c.customer != "" && c.value != "" {
		return ""
	}
	var b []byte
	for _, f := range c.payload {
		if f.key != c.meter.CustomerKey && f.key != c.meter.ValueKey {
			b = append(appendString(b, f.key), ':')
			b = append(appendString(b, f.value), ',')
		}
	}
	return string(b)
}

func newIdentifier() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return hex.EncodeToString(b[:])
}
