package sandbox

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"
)

// Entry is what the sandbox knows about one identifier in one account and mode.
type Entry struct {
	Account    string `json:"account"`
	Live       bool   `json:"livemode"`
	Identifier string `json:"identifier"`

	// Meter (its event name), Customer, Value and Timestamp are those of the newest accepted event; zero if none was.
	Meter     string    `json:"meter,omitempty"`
	Customer  string    `json:"customer,omitempty"`
	Value     string    `json:"value,omitempty"`
	Timestamp time.Time `json:"timestamp,omitzero"`

	// FirstReceived is the wall clock when the first request with the identifier reached the sandbox.
	FirstReceived time.Time `json:"first_received"`

	// Received counts the requests that carried the identifier, refused and failed ones included.
	Received int `json:"received"`

	// Billed counts the distinct usage events under the identifier, without cancelled ones. 2 means that a customer
	// is charged twice.
	Billed int `json:"billed"`

	// Cancelled says that the newest event was cancelled by an adjustment.
	Cancelled bool `json:"cancelled,omitempty"`

	// Rejected is the code of the newest event's asynchronous refusal.
	Rejected string `json:"rejected,omitempty"`
}

// Totals sums up ledgers.
type Totals struct {
	Identifiers int `json:"identifiers"`  // seen in requests
	Received    int `json:"received"`     // requests that carried an identifier, once for each event of a batch
	Billed      int `json:"billed"`       // usage events, without cancelled ones
	BilledAgain int `json:"billed_again"` // those of them whose identifier is billed already: must be 0
	Rejected    int `json:"rejected"`     // accepted, then refused asynchronously
	Cancelled   int `json:"cancelled"`    // by an adjustment
}

func (t Totals) plus(o Totals) Totals {
	return Totals{
		t.Identifiers + o.Identifiers, t.Received + o.Received, t.Billed + o.Billed,
		t.BilledAgain + o.BilledAgain, t.Rejected + o.Rejected, t.Cancelled + o.Cancelled,
	}
}

// Totals over all accounts and modes. It costs the same however many events there are.
func (s *Sandbox) Totals() Totals {
	var sum Totals
	for _, w := range s.allWorlds() {
		w.mu.Lock()
		sum = sum.plus(w.counts)
		w.mu.Unlock()
	}
	return sum
}

// Ledger returns every entry, sorted by account, mode (test first) and identifier.
func (s *Sandbox) Ledger() []Entry {
	return slices.SortedFunc(s.Entries(), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), compareBool(a.Live, b.Live), cmp.Compare(a.Identifier, b.Identifier))
	})
}

// Entries yields every entry, in no order. Events that arrive meanwhile may be missing.
func (s *Sandbox) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, w := range s.allWorlds() {
			for e := range w.entries() {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Entry returns the entry of an identifier. Where several accounts or modes have seen it, the one that was
// billed most is returned: a test looks for harm.
func (s *Sandbox) Entry(identifier string) (Entry, bool) {
	var found Entry
	ok := false
	for _, w := range s.allWorlds() {
		w.mu.Lock()
		if e := w.events[identifier]; e != nil {
			if entry := w.entry(e); !ok || entry.Billed > found.Billed {
				found, ok = entry, true
			}
		}
		w.mu.Unlock()
	}
	return found, ok
}

// Await polls until the totals satisfy done, or ctx ends.
func (s *Sandbox) Await(ctx context.Context, done func(Totals) bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done(s.Totals()) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// entries copies pointers first and reads them in small portions, so that requests are never held up for long.
func (w *world) entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		w.mu.Lock()
		heads := make([]*event, 0, len(w.events))
		for _, e := range w.events {
			heads = append(heads, e)
		}
		w.mu.Unlock()
		batch := make([]Entry, 0, 512)
		for chunk := range slices.Chunk(heads, cap(batch)) {
			batch = batch[:0]
			w.mu.Lock()
			for _, e := range chunk {
				batch = append(batch, w.entry(e))
			}
			w.mu.Unlock()
			for _, e := range batch {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// entry needs mu.
func (w *world) entry(head *event) Entry {
	out := Entry{Account: w.account, Live: w.live, Identifier: head.identifier, Cancelled: head.cancelled}
	if head.rare != nil {
		out.Rejected = head.rare.rejected
	}
	if head.series != nil {
		out.Meter, out.Customer = head.series.meter.EventName, head.series.customer
		out.Value, out.Timestamp = head.value, time.Unix(head.timestamp, 0).UTC()
	}
	for e := head; e != nil; e = e.before() {
		out.Received += int(e.received)
		if e.stands() {
			out.Billed++
		}
		out.FirstReceived = time.Unix(0, e.firstReceived).UTC()
	}
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
