package relay

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/weir-relay/weir/machine"
)

// claimed is what one claim brought.
type claimed struct {
	items  []machine.Item
	commit map[int64]time.Time // of the items that a wake named: when they committed, by the server's clock
	until  time.Time           // the leases hold at least until then
	more   bool                // there may be more to do at once
	probe  bool                // the item is a probe of the gate
}

// pass is a sweep under way: claims in id order from the start of the table to its end.
type pass struct {
	request uint64    // the agenda's request that it serves
	cursor  int64     // the last id it has seen; 0 between passes
	asked   time.Time // a little before debt was taken
	debt    uint64    // transactions below it may hide rows that the request is about
	clear   bool      // none of them did when this pass began
	again   time.Time // a pass that wasn't clear is made again then
	turn    bool      // wakes had the last turn
}

// sweepAgain is the delay before the next pass where a running transaction may hide rows.
const sweepAgain = time.Second

// claim takes up to n items: those that wakes name, or what a sweep finds; in turn when there are both.
func (l *Lane) claim(ctx context.Context, n int) (claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	now := time.Now()
	sweepDue, request := l.sweepDue(now)
	if !sweepDue || !l.pass.turn {
		if wakes := l.agenda.take(n, now); len(wakes) > 0 {
			l.pass.turn = true
			return l.claimWoken(ctx, wakes)
		}
	}
	l.pass.turn = false
	if sweepDue {
		return l.claimSwept(ctx, n, request)
	}
	return claimed{}, nil
}

// sweepDue answers whether it is time for a step of a sweep, and which request that serves. A request that no
// pass has begun for doesn't wait for the next pass of an older one.
func (l *Lane) sweepDue(now time.Time) (due bool, request uint64) {
	owed, request := l.agenda.sweepOwed(now)
	return owed && (request != l.pass.request || !now.Before(l.pass.again)), request
}

func (l *Lane) claimer() machine.Claimer {
	return machine.Claimer{Exporter: l.name, Owner: l.owner, Order: l.order}
}

// claimWoken claims the items that wakes name. A wake decides nothing: what isn't due stays where it is.
func (l *Lane) claimWoken(ctx context.Context, wakes []wake) (claimed, error) {
	c := claimed{until: time.Now().Add(l.store.Policy().Lease), more: true, commit: make(map[int64]time.Time, len(wakes))}
	ids := make([]int64, len(wakes))
	for i, w := range wakes {
		ids[i] = w.id
		c.commit[w.id] = w.commit
	}
	var err error
	if c.items, err = l.store.Claim(ctx, l.claimer(), ids); err != nil {
		return claimed{}, err
	}
	l.metrics.claimed(l.metrics.woken, len(c.items))
	if len(c.items) == len(ids) {
		return c, nil
	}
	got := make(map[int64]bool, len(c.items))
	for i := range c.items {
		got[c.items[i].ID] = true
	}
	missing := make(map[int64]wake, len(wakes)-len(got))
	for _, w := range wakes {
		if !got[w.id] {
			missing[w.id] = w
		}
	}
	return c, l.look(ctx, missing)
}

// look finds out why a claim did not return the items that it named, and puts them back where they will be due.
func (l *Lane) look(ctx context.Context, missing map[int64]wake) error {
	ids := slices.Collect(maps.Keys(missing))
	l.agenda.asking()
	defer l.agenda.answered()
	sights, err := l.store.Look(ctx, ids)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, s := range sights {
		w := missing[s.ID]
		delete(missing, s.ID)
		switch {
		case !s.State.Open():
		case s.DueIn > 0:
			l.agenda.by(wake{id: s.ID}, now.Add(s.DueIn+leaseSlack))
		default:
			// Locked at that moment, or behind another item in its line.
			l.agenda.again(w, now, l.longest())
			l.metrics.unseen.Inc()
		}
	}
	// The rest is not visible yet (lessons 1, 2).
	for _, w := range missing {
		l.agenda.again(w, now, hiddenLongest)
	}
	l.metrics.unseen.Add(float64(len(missing)))
	return nil
}

// ordered says that items may wait for others.
func (l *Lane) ordered() bool { return l.order != "" && l.order != machine.BestEffort }

// longest is how long at most an item that is visible and due waits before it is looked at again.
func (l *Lane) longest() time.Duration {
	if l.ordered() {
		return lineLongest
	}
	return hiddenLongest
}

// claimSwept makes one step of a pass over the table.
//
// A pass begins at id 0 (lesson 24) and is over when a claim returns less than it asked for. The request it
// serves is done only when no transaction that was running when the request was seen can hide rows: their
// wakes may have been dropped in favour of this sweep.
func (l *Lane) claimSwept(ctx context.Context, n int, request uint64) (claimed, error) {
	p := &l.pass
	if p.cursor == 0 {
		asked := time.Now()
		xmin, xmax, err := l.store.Running(ctx)
		if err != nil {
			return claimed{}, err
		}
		if p.request != request {
			p.request, p.asked, p.debt = request, asked, xmax
		}
		p.clear = xmin >= p.debt
	}
	c := claimed{until: time.Now().Add(l.store.Policy().Lease), more: true}
	var err error
	if c.items, err = l.store.Sweep(ctx, l.claimer(), p.cursor, n); err != nil {
		p.cursor = 0
		return claimed{}, err
	}
	l.metrics.claimed(l.metrics.swept, len(c.items))
	if len(c.items) == n {
		p.cursor = c.items[n-1].ID
		return c, nil
	}
	p.cursor = 0
	if !p.clear {
		p.again = time.Now().Add(sweepAgain)
		return c, nil
	}
	l.metrics.sweeps.Inc()
	p.again = time.Time{}
	if err := l.learn(ctx); err != nil {
		return c, err
	}
	l.agenda.swept(p.request)
	return c, nil
}

// learn sets the timers that nobody rings for. What is due already came while the pass went on, is locked, or
// waits in line.
func (l *Lane) learn(ctx context.Context) error {
	l.agenda.asking()
	defer l.agenda.answered()
	upcoming, err := l.store.Upcoming(ctx, l.name, agendaBound)
	if err != nil {
		return err
	}
	overdue := hiddenFirst
	if l.ordered() {
		overdue = hiddenLongest
	}
	now := time.Now()
	soonest := make([]timer, len(upcoming))
	for i, s := range upcoming {
		w, in := wake{id: s.ID}, s.DueIn+leaseSlack
		if s.DueIn <= 0 {
			w.hidden, in = overdue, overdue
		}
		soonest[i] = timer{wake: w, when: now.Add(in)}
	}
	l.agenda.learn(soonest, len(upcoming) == agendaBound, l.pass.asked)
	return nil
}
