package stripe

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// book is what the latest inspection has found: which meters there are, and whether the account is the right one.
// Without an inspection nothing is held against anything: Stripe's own answers decide.
//
// Invariant: an item is held because of its meter only by evidence younger than stale. So a person who has mended a
// meter can requeue its items at once.
type book struct {
	asking sync.Mutex // one inspection at a time

	mu     sync.Mutex
	read   time.Time         // of the latest inspection; zero before the first
	meters map[string]*Meter // by event_name; of several, the active one
	halt   *problem          // the account itself is wrong: the lane waits
}

// stale is the age at which evidence against an item is gathered again.
const stale = time.Minute

// enter replaces what the book says. A zero now empties it.
func (b *book) enter(meters []Meter, findings []Finding, now time.Time) {
	byName := make(map[string]*Meter, len(meters))
	for i := range meters {
		if known := byName[meters[i].Event]; known == nil || !known.Active {
			byName[meters[i].Event] = &meters[i]
		}
	}
	var halt *problem
	for _, f := range findings {
		if f.halts() {
			halt = problemf(f.Code, "%s: %s", f.Detail, f.Hint)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read, b.meters, b.halt = now, byName, halt
}

// halts reports whether a finding is about the account as a whole. Its items aren't at fault, and quarantining a
// backlog would make work for nothing: the lane waits instead.
func (f Finding) halts() bool {
	switch f.Code {
	case "account_mismatch", "livemode_mismatch", "no_meters":
		return true
	}
	return false
}

// judge answers why the event must not be sent, nil where it may, and when that was found out. Zero: never.
func (b *book) judge(ev *event) (p *problem, halt bool, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read.IsZero() {
		return nil, false, b.read
	}
	if b.halt != nil {
		return b.halt, true, b.read
	}
	return b.meters[ev.meter].unsafe(ev.meter, ev.keys), false, b.read
}

// unsafe says why usage for the meter would be lost or billed wrongly. A nil meter isn't there.
func (m *Meter) unsafe(name string, keys MeterConfig) *problem {
	switch {
	case m == nil:
		return problemf("meter_unknown", "the account has no meter %q: create it, then requeue", name)
	case !m.Active:
		return problemf("meter_inactive", "meter %q is deactivated: reactivate it, then requeue", name)
	case m.Window != "":
		return problemf("meter_preaggregated", "of all events in one %s meter %q counts only the latest: use one without event_time_window", m.Window, name)
	case m.keys() != keys:
		return problemf("meter_keys", "meter %q reads %q and %q, the event would have %q and %q: configure the meter's keys, then requeue",
			name, m.CustomerKey, m.ValueKey, keys.CustomerKey, keys.ValueKey)
	}
	return nil
}

// keys are the payload keys that the meter reads.
func (m *Meter) keys() MeterConfig {
	return MeterConfig{cmp.Or(m.CustomerKey, defaultCustomerKey), cmp.Or(m.ValueKey, defaultValueKey)}
}

// trusted holds back what the book speaks against. What it says is refreshed first, if it is stale. Where that fails,
// the item waits, and the others don't: they will find out themselves whether Stripe is in trouble.
func (e *Exporter) trusted(ctx context.Context, ev *event) *exporter.Outcome {
	p, _, read := e.book.judge(ev)
	if p == nil {
		return nil
	}
	if e.now().Sub(read) > stale {
		if err := e.refresh(ctx); err != nil {
			return &exporter.Outcome{
				Kind: exporter.Retry, Signal: exporter.Unasked, Cost: machine.Unsent, Code: "meters_unread",
				Detail: clean(p.detail + "; whether that is still so couldn't be asked: " + err.Error()),
			}
		}
	}
	p, halt, _ := e.book.judge(ev)
	switch {
	case p == nil:
		return nil
	case halt:
		return paused(p)
	}
	return hold(p)
}

// refresh inspects the account, unless somebody else has just done it.
func (e *Exporter) refresh(ctx context.Context) error {
	e.book.asking.Lock()
	defer e.book.asking.Unlock()
	e.book.mu.Lock()
	read := e.book.read
	e.book.mu.Unlock()
	if e.now().Sub(read) <= stale {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	_, err := e.Inspect(ctx)
	return err
}
