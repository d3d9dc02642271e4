package relay

import (
	"sync"
	"time"
)

// How long a row that a claim did not get waits before it is looked at again: first, and at most, since each
// time it waits twice as long.
const (
	hiddenFirst   = 250 * time.Microsecond
	hiddenLongest = time.Second      // it is not visible yet, or locked
	lineLongest   = 10 * time.Second // it is behind another item, whose settling rings for it
)

// agenda is what a lane has to look at: ids that are due now, ids that will be due, and whether to look at
// the whole table. The stream fills it, the lane empties it. It is bounded: what doesn't fit becomes a sweep,
// so that its memory is flat at any backlog.
//
// Invariant: an item that was put in and not taken out again is in heads, ready or later, or covered by a
// sweep that is owed, now or at its time.
type agenda struct {
	bound int // of each list and of the timers

	mu     sync.Mutex
	heads  list // what came to the head of its line; taken before ready
	ready  list
	later  timers
	owed   bool               // a sweep of the whole table
	asked  uint64             // how often one was asked for
	gone   map[int64]struct{} // what came to rest while a query was under way; nil while none is
	armed  time.Time          // the lane looks by itself then
	signal chan struct{}      // holds a token when there is something to do
}

func newAgenda(bound int) *agenda {
	return &agenda{
		bound:  bound,
		heads:  newList(),
		ready:  newList(),
		later:  newTimers(),
		signal: make(chan struct{}, 1),
	}
}

// now puts an id in that is due. It is the doorbell.
func (a *agenda) now(w wake) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.later.remove(w.id)
	a.push(&a.ready, w)
	a.ring()
}

// head puts an id in that has come to the head of its line: the many that wait behind it must not delay it.
func (a *agenda) head(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.later.remove(id)
	a.push(&a.heads, wake{id: id})
	a.ring()
}

// push adds w to l, once. Called with mu held.
func (a *agenda) push(l *list, w wake) {
	switch {
	case l.contains(w.id):
	case l.len() >= a.bound:
		a.sweepLocked()
	default:
		l.push(w)
	}
}

// at puts an id in that will be due at when, by this process's clock. The log said so: it replaces what was
// known before.
func (a *agenda) at(id int64, when time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set(wake{id: id}, when)
	a.ringBefore(when)
}

// by puts an id in that will be due at when as far as a query saw. The log may have told newer things while
// the query ran, so a timer that is set already is never put off.
func (a *agenda) by(w wake, when time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.setBy(w, when)
	a.ringBefore(when)
}

func (a *agenda) setBy(w wake, when time.Time) {
	if _, ok := a.gone[w.id]; ok {
		return
	}
	if known := a.later.at[w.id]; known == nil || when.Before(known.when) {
		a.set(w, when)
	}
}

// set sets the timer of an id. Called with mu held.
func (a *agenda) set(w wake, when time.Time) {
	if a.later.len() >= a.bound && a.later.at[w.id] == nil {
		// A sweep at its time makes up for it, and ends by learning the timers anew.
		a.later.coarse(when)
		return
	}
	a.later.set(w, when)
}

// again puts a wake back whose row a claim did not get. Each time it waits twice as long, up to longest.
func (a *agenda) again(w wake, now time.Time, longest time.Duration) {
	if w.vain.IsZero() {
		w.vain = now
	}
	w.hidden = min(max(2*w.hidden, hiddenFirst), longest)
	a.by(w, now.Add(w.hidden))
}

// forget takes an id out that has come to rest, or is gone. A wake that is ready stays: looking is harmless.
func (a *agenda) forget(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.later.remove(id)
	if a.gone != nil && len(a.gone) < a.bound {
		a.gone[id] = struct{}{}
	}
}

// asking says that a query is about to ask where items stand, and answered that what it saw has been put in. An
// item that comes to rest in between is not put back: what the query saw of it is old.
func (a *agenda) asking() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = make(map[int64]struct{})
}

func (a *agenda) answered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = nil
}

// clear takes everything out: there are no rows any more. What comes after is put in anew.
func (a *agenda) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heads, a.ready, a.later = newList(), newList(), newTimers()
}

// learn takes in the ids that a sweep found to be due soonest, in the order of their times. cut says that
// there are more than these: what is due after the last is left to a sweep at that time. What was looked for in
// vain before the sweep was asked for, and still isn't there, never will be: its row was deleted.
func (a *agenda) learn(soonest []timer, cut bool, asked time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.later.removeWhere(func(t *timer) bool { return !t.vain.IsZero() && t.vain.Before(asked) })
	if cut {
		last := soonest[len(soonest)-1].when
		a.later.removeWhere(func(t *timer) bool { return t.when.After(last) })
		a.later.coarse(last)
	}
	for _, t := range soonest {
		a.setBy(t.wake, t.when)
	}
	a.ring()
}

// sweep asks for a look at the whole table.
func (a *agenda) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweepLocked()
	a.ring()
}

func (a *agenda) sweepLocked() {
	a.owed = true
	a.asked++
}

func (a *agenda) ring() {
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// ringBefore rings if the lane would look only after when. Most timers are those of leases, which end long
// after: a ring for each would wake the lane in the middle of each send. Called with mu held.
func (a *agenda) ringBefore(when time.Time) {
	if when.Before(a.armed) {
		a.ring()
	}
}

// take takes up to n wakes out that are due: heads first, then oldest first. An id may come twice.
func (a *agenda) take(n int, now time.Time) []wake {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ripen(now)
	wakes := a.heads.pop(n)
	return append(wakes, a.ready.pop(n-len(wakes))...)
}

// ripen moves what has become due to ready. Called with mu held.
func (a *agenda) ripen(now time.Time) {
	for {
		t, ok := a.later.due(now)
		if !ok {
			break
		}
		a.push(&a.ready, t.wake)
	}
	if a.later.coarseDue(now) {
		a.sweepLocked()
	}
}

// sweepOwed answers whether a sweep is asked for at now, and which asking it was.
func (a *agenda) sweepOwed(now time.Time) (owed bool, request uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ripen(now)
	return a.owed, a.asked
}

// swept says that the sweep of this request is complete. A later request stays.
func (a *agenda) swept(request uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == request {
		a.owed = false
	}
}

// lookAnyway is how long a lane waits at most without a ring.
const lookAnyway = time.Minute

// next is when the lane has to look if nobody rings: when the earliest timer fires, or soon enough for those that
// are set meanwhile without a ring.
func (a *agenda) next(now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed = now.Add(lookAnyway)
	if first := a.later.next(); !first.IsZero() && first.Before(a.armed) {
		a.armed = first
	}
	return a.armed
}

// depth is how many ids are ready and later.
func (a *agenda) depth() (ready, later int, owed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heads.len() + a.ready.len(), a.later.len(), a.owed
}
