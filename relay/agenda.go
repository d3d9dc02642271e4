package relay

import (
	"sync"
	"time"
)

// hiddenFirst and hiddenLongest bound the delay after which a row that is not visible yet, or locked, is
// looked at again.
const (
	hiddenFirst   = 2 * time.Millisecond
	hiddenLongest = time.Second
)

// wake is an id to look at, and when its transaction committed by the server's clock; zero where the log
// didn't say.
type wake struct {
	id     int64
	commit time.Time
}

// agenda is what a lane has to look at: ids that are due now, ids that will be due, and whether to look at
// the whole table. The stream fills it, the lane empties it. It is bounded: what doesn't fit becomes a sweep,
// so that its memory is flat at any backlog.
//
// Invariant: an item that was put in and not taken out again is ready, or later, or covered by a sweep that
// is owed.
type agenda struct {
	bound int

	mu     sync.Mutex
	ready  []wake
	listed map[int64]struct{} // the ids in ready
	later  timers
	unseen map[int64]time.Duration // ids that a claim did not get, and how long each waits before the next look
	owed   bool                    // a sweep of the whole table
	asked  uint64
	signal chan struct{} // holds a token when there is something to do
}

func newAgenda(bound int) *agenda {
	return &agenda{
		bound:  bound,
		listed: make(map[int64]struct{}),
		later:  timers{at: make(map[int64]*timer)},
		unseen: make(map[int64]time.Duration),
		signal: make(chan struct{}, 1),
	}
}

// now puts an id in that is due. It is the doorbell.
func (a *agenda) now(w wake) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.later.remove(w.id)
	a.push(w)
	a.ring()
}

// push adds w to ready, once. Called with mu held.
func (a *agenda) push(w wake) {
	if _, ok := a.listed[w.id]; ok {
		return
	}
	if len(a.ready) >= a.bound {
		a.sweepLocked()
		return
	}
	a.listed[w.id] = struct{}{}
	a.ready = append(a.ready, w)
}

// at puts an id in that will be due at when, by this process's clock.
func (a *agenda) at(id int64, when time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.unseen, id)
	a.set(id, when)
}

// set sets the timer of id. Called with mu held.
func (a *agenda) set(id int64, when time.Time) {
	if a.later.len() >= a.bound && a.later.at[id] == nil {
		// A sweep at its time makes up for it, and ends by learning the timers anew.
		a.later.coarse(when)
	} else {
		a.later.set(id, when)
	}
	a.ring()
}

// again puts an id back whose row could not be seen or was locked. Each time it waits twice as long, from
// hiddenFirst to hiddenLongest.
func (a *agenda) again(id int64, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delay := min(max(2*a.unseen[id], hiddenFirst), hiddenLongest)
	if a.later.len() < a.bound {
		a.unseen[id] = delay
	}
	a.set(id, now.Add(delay))
}

// forget takes an id out: it is at rest, or gone.
func (a *agenda) forget(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.later.remove(id)
	delete(a.unseen, id)
}

// sweepAt asks for a look at the whole table at when.
func (a *agenda) sweepAt(when time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.later.coarse(when)
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

// take moves what has become due to ready and takes up to n ids out of it, oldest first. owed says whether a
// sweep is asked for, request which asking it was.
func (a *agenda) take(n int, now time.Time) (wakes []wake, owed bool, request uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		t, ok := a.later.due(now)
		if !ok {
			break
		}
		a.push(wake{id: t.id})
	}
	if a.later.coarseDue(now) {
		a.sweepLocked()
	}
	n = min(n, len(a.ready))
	if n > 0 {
		wakes = append(wakes, a.ready[:n]...)
		a.ready = append(a.ready[:0], a.ready[n:]...)
		for _, w := range wakes {
			delete(a.listed, w.id)
		}
	}
	return wakes, a.owed, a.asked
}

// swept says that the sweep of this request is complete. A later request stays.
func (a *agenda) swept(request uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == request {
		a.owed = false
	}
}

// next is when the earliest timer fires; zero where there is none.
func (a *agenda) next() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.later.next()
}

// depth is how many ids are ready and later.
func (a *agenda) depth() (ready, later int, owed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ready), a.later.len(), a.owed
}
