package relay

import "time"

// wake is an id to look at.
type wake struct {
	id     int64
	commit time.Time     // of its transaction, by the server's clock; zero where the log didn't say
	vain   time.Time     // when a claim first didn't get it; zero: none has tried
	hidden time.Duration // how long it waited since the last that didn't
}

// list is a queue of wakes, each id at most once.
type list struct {
	wakes []wake
	has   map[int64]struct{}
}

func newList() list { return list{has: make(map[int64]struct{})} }

func (l *list) len() int { return len(l.wakes) }

func (l *list) contains(id int64) bool {
	_, ok := l.has[id]
	return ok
}

// push puts w at the end.
func (l *list) push(w wake) {
	l.has[w.id] = struct{}{}
	l.wakes = append(l.wakes, w)
}

// pop takes up to n from the front.
func (l *list) pop(n int) []wake {
	out := append([]wake(nil), l.wakes[:min(n, len(l.wakes))]...)
	l.wakes = l.wakes[len(out):]
	for _, w := range out {
		delete(l.has, w.id)
	}
	return out
}
