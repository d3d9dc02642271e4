package relay

import (
	"container/heap"
	"time"
)

// timer is a wake and when it will be due. index is its place in the heap.
type timer struct {
	wake
	when  time.Time
	index int
}

// timers is a heap of timers that can be moved and removed by id, and one coarse timer for those that
// didn't fit.
type timers struct {
	heap     timerHeap
	at       map[int64]*timer
	overflow time.Time
}

func newTimers() timers { return timers{at: make(map[int64]*timer)} }

func (t *timers) len() int { return len(t.heap) }

func (t *timers) set(w wake, when time.Time) {
	if known := t.at[w.id]; known != nil {
		known.wake, known.when = w, when
		heap.Fix(&t.heap, known.index)
		return
	}
	added := &timer{wake: w, when: when}
	t.at[w.id] = added
	heap.Push(&t.heap, added)
}

func (t *timers) remove(id int64) {
	if known := t.at[id]; known != nil {
		heap.Remove(&t.heap, known.index)
		delete(t.at, id)
	}
}

// removeWhere removes the timers for which gone says so.
func (t *timers) removeWhere(gone func(*timer) bool) {
	kept := t.heap[:0]
	for _, known := range t.heap {
		if gone(known) {
			delete(t.at, known.id)
			continue
		}
		known.index = len(kept)
		kept = append(kept, known)
	}
	clear(t.heap[len(kept):])
	t.heap = kept
	heap.Init(&t.heap)
}

// due takes the earliest timer out if it has fired.
func (t *timers) due(now time.Time) (*timer, bool) {
	if len(t.heap) == 0 || t.heap[0].when.After(now) {
		return nil, false
	}
	first := heap.Pop(&t.heap).(*timer)
	delete(t.at, first.id)
	return first, true
}

// coarse keeps the earliest time of those that didn't fit, rounded up to a whole second: however many there
// are, they cost a sweep a second at most.
func (t *timers) coarse(when time.Time) {
	when = when.Add(time.Second - time.Duration(when.Nanosecond()))
	if t.overflow.IsZero() || when.Before(t.overflow) {
		t.overflow = when
	}
}

func (t *timers) coarseDue(now time.Time) bool {
	if t.overflow.IsZero() || t.overflow.After(now) {
		return false
	}
	t.overflow = time.Time{}
	return true
}

func (t *timers) next() time.Time {
	next := t.overflow
	if len(t.heap) > 0 && (next.IsZero() || t.heap[0].when.Before(next)) {
		next = t.heap[0].when
	}
	return next
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].when.Before(h[j].when) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
