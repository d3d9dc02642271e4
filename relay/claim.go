package relay

import (
	"context"
	"time"

	"github.com/weir-relay/weir/machine"
)

// claimed is what one claim brought.
type claimed struct {
	items  []machine.Item
	commit map[int64]time.Time // of the items that a wake named: when they committed, by the server's clock
	until  time.Time           // the leases hold at least until then
	more   bool                // there may be more to do at once
}

// pass is a sweep under way: claims in id order from the start of the table to its end.
type pass struct {
	request uint64    // the agenda's request that it serves
	cursor  int64     // the last id it has seen; 0 between passes
	debt    uint64    // transactions below it may hide rows that the request is about
	clear   bool      // none of them did when this pass began
	again   time.Time // a pass that wasn't clear is made again then
	turn    bool      // wakes had the last turn
}

// sweepAgain is the delay before the next pass where a running transaction may hide rows.
const sweepAgain = time.Second

// claim takes up to n items: those that wakes name, or what a sweep finds; in turn when there are both.
func (l *Lane) claim(ctx context.Context, n int) (claimed, error) {
	now := time.Now()
	sweepNow := l.sweepDue(now)
	limit := n
	if sweepNow && l.pass.turn {
		limit = 0
	}
	wakes, owed, request := l.agenda.take(limit, now)
	if len(wakes) > 0 {
		l.pass.turn = true
		return l.claimWoken(ctx, wakes, owed)
	}
	l.pass.turn = false
	if owed && !now.Before(l.pass.again) {
		return l.claimSwept(ctx, n, request)
	}
	return claimed{}, nil
}

func (l *Lane) sweepDue(now time.Time) bool {
	_, _, owed := l.agenda.depth()
	return owed && !now.Before(l.pass.again)
}

func (l *Lane) claimer() machine.Claimer {
	return machine.Claimer{Exporter: l.name, Owner: l.owner, Order: l.order}
}

// claimWoken claims the items that wakes name. A wake decides nothing: what isn't due stays where it is.
func (l *Lane) claimWoken(ctx context.Context, wakes []wake, owed bool) (claimed, error) {
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
	for i := range c.items {
		delete(c.commit, c.items[i].ID)
	}
	missing := c.commit
	c.commit = make(map[int64]time.Time, len(c.items))
	for _, w := range wakes {
		if _, ok := missing[w.id]; !ok {
			c.commit[w.id] = w.commit
		}
	}
	if owed {
		// The sweep that is owed finds them: but only one that begins after now.
		l.agenda.sweep()
		return c, nil
	}
	return c, l.look(ctx, missing)
}

// look finds out why a claim did not return the items it named, and puts them back where they will be due.
func (l *Lane) look(ctx context.Context, missing map[int64]time.Time) error {
	ids := make([]int64, 0, len(missing))
	for id := range missing {
		ids = append(ids, id)
	}
	sights, err := l.store.Look(ctx, ids)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, s := range sights {
		switch {
		case !s.State.Open():
			delete(missing, s.ID)
			l.agenda.forget(s.ID)
		case s.DueIn > 0:
			delete(missing, s.ID)
			l.agenda.at(s.ID, now.Add(s.DueIn))
		}
	}
	// The rest is not visible yet, locked at that moment, or behind another item in its line (lessons 1, 2).
	for id := range missing {
		l.agenda.again(id, now)
	}
	l.metrics.unseen.Add(float64(len(missing)))
	return nil
}

// claimSwept makes one step of a pass over the table.
//
// A pass begins at id 0 (lesson 24) and is over when a claim returns less than it asked for. The request it
// serves is done only when no transaction that was running when the request was seen can hide rows: their
// wakes may have been dropped in favour of this sweep.
func (l *Lane) claimSwept(ctx context.Context, n int, request uint64) (claimed, error) {
	p := &l.pass
	if p.cursor == 0 {
		xmin, xmax, err := l.store.Running(ctx)
		if err != nil {
			return claimed{}, err
		}
		if p.request != request {
			p.request, p.debt = request, xmax
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
	upcoming, err := l.store.Upcoming(ctx, l.name, agendaBound)
	if err != nil {
		return c, err
	}
	now := time.Now()
	for _, s := range upcoming {
		l.agenda.at(s.ID, now.Add(s.DueIn))
	}
	if len(upcoming) == agendaBound {
		l.agenda.sweepAt(now.Add(upcoming[agendaBound-1].DueIn))
	}
	l.agenda.swept(request)
	return c, nil
}
