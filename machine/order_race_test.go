package machine

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Several workers at once, each sweeping, settling and sometimes postponing: whatever snapshot a claim has,
// an item is taken only when everything before it in its line has come to rest. Without a person's deed or a
// late commit, an item that is open never was closed before, so no older snapshot shows it closed.
func TestConcurrentWorkersKeepOrder(t *testing.T) {
	for order, lines := range map[Order]int{PerKey: 4, PerSource: 4, StopTheLine: 1} {
		t.Run(string(order), func(t *testing.T) {
			f := newFixture(t, DefaultPolicy())
			const n = 240
			for i := range n {
				in := intent{ref: fmt.Sprint(i), source: fmt.Sprint("s", i%lines), orderKey: "k"}
				f.stage(f.pool, in)
			}
			w := &watcher{T: t, line: map[string]int64{}, flying: map[string]int64{}}
			g, ctx := errgroup.WithContext(t.Context())
			for worker := range 6 {
				g.Go(func() error { return w.work(ctx, f, Claimer{"stripe", fmt.Sprint("w", worker), order}, n) })
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			if w.rest != n {
				t.Errorf("want %d at rest, got %d", n, w.rest)
			}
		})
	}
}

// watcher knows for each line which item has come to rest last and which is in flight.
type watcher struct {
	*testing.T
	mu     sync.Mutex
	line   map[string]int64
	flying map[string]int64
	rest   int
	claims int
}

func (w *watcher) work(ctx context.Context, f *fixture, lane Claimer, n int) error {
	for !w.finished(n) {
		items, err := f.Sweep(ctx, lane, 0, 3)
		if err != nil {
			return err
		}
		for i := range items {
			it := &items[i]
			if w.took(it) {
				w.landed(it, false)
				_, err = f.Retry(ctx, []Postponement{{Ref: it.Ref(), Cost: Waived}})
			} else {
				w.landed(it, true)
				_, err = f.Accept(ctx, []Acceptance{{Ref: it.Ref()}})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *watcher) finished(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rest >= n || w.Failed()
}

// took notes a claim and says whether it should be postponed.
func (w *watcher) took(it *Item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if it.ID <= w.line[it.Source] {
		w.Errorf("line %s: item %d was taken after item %d", it.Source, it.ID, w.line[it.Source])
	}
	if other := w.flying[it.Source]; other != 0 {
		w.Errorf("line %s: items %d and %d are in flight at once", it.Source, other, it.ID)
	}
	w.flying[it.Source] = it.ID
	w.claims++
	return w.claims%3 == 0
}

// landed is told before the settle is written: after it, another worker may be faster.
func (w *watcher) landed(it *Item, rest bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying[it.Source] = 0
	if rest {
		w.line[it.Source] = it.ID
		w.rest++
	}
}
