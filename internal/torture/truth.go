package torture

import "sync"

// truth is what the producers know of their transactions. A commit whose answer was lost is repeated until
// there is one, so in the end nothing is open.
type truth struct {
	mu        sync.Mutex
	committed map[string]Item // by identifier
	undone    map[string]Item // rolled back, and enqueued by nobody else
}

func newTruth() *truth {
	return &truth{committed: map[string]Item{}, undone: map[string]Item{}}
}

// commit records what was committed.
func (t *truth) commit(items []Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, it := range items {
		t.committed[it.identifier()] = it
	}
}

// undo records what was rolled back.
func (t *truth) undo(items []Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, it := range items {
		t.undone[it.identifier()] = it
	}
}

// size is how many items were committed so far.
func (t *truth) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.committed)
}
