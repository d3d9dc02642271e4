package relay

import (
	"container/heap"
	"time"
)

// timer is an id and when it will be due. index is its place in the heap.
type timer struct {
	id    int64
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

func (t *timers) len() int { return len(t.heap) }

func (t *timers) set(id int64, when time.Time) {
	if known := t.at[id]; known != nil {
		known.when = when
		heap.Fix(&t.heap, known.index)
		return
	}
	added := &timer{id: id, when: when}
	t.at[id] = added
	heap.Push(&t.heap, added)
}

func (t *timers) remove(id int64) {
	if known := t.at[id]; known != nil {
		heap.Remove(&t.heap, known.index)
		delete(t.at, id)
	}
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

// coarse keeps the earliest time of those that didn't fit.
func (t *timers) coarse(when time.Time) {
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
