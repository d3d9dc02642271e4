package checkpoint

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// witness reads the same log through a slot of its own, and keeps the state of every single item. So it
// knows the counts at every position without from_state and without announcements. It has to be there
// before the first item.
type witness struct {
	mu      sync.Mutex
	items   map[int64]place
	counts  machine.Counts
	at      replication.LSN
	history []past
	open    []replication.Change
}

type place struct {
	exporter string
	state    machine.State
}

type past struct {
	end    replication.LSN
	counts machine.Counts
}

// watch starts a witness and returns once it streams.
func watch(t *testing.T, url, slot string) *witness {
	t.Helper()
	w := &witness{items: map[int64]place{}, counts: machine.Counts{}}
	stream := replication.New(streamConfig(url, slot+"_w", slog.New(slog.DiscardHandler)), w, w)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := stream.Run(ctx); err != nil {
			t.Errorf("witness: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	pgtest.Eventually(t, patience, func() bool { return stream.Status().Mode == replication.Streaming })
	return w
}

func (w *witness) Resume(context.Context, replication.Source) (replication.LSN, error) { return 0, nil }
func (w *witness) Rebase(_ context.Context, _ replication.Source, at replication.LSN, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.history = at, []past{{at, machine.Counts{}}}
	return nil
}

func (w *witness) Confirmed() replication.LSN {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *witness) Started()                     {}
func (w *witness) Stopped()                     {}
func (w *witness) Begin(time.Time)              { w.open = w.open[:0] }
func (w *witness) Change(c *replication.Change) { w.open = append(w.open, *c) }

func (w *witness) Commit(end replication.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		switch c.Kind {
		case replication.Insert, replication.Update:
			w.leave(c.ID)
			w.items[c.ID] = place{c.Exporter, c.State}
			w.counts.Add(c.Exporter, c.State, 1)
		case replication.Delete:
			w.leave(c.ID)
		case replication.Truncate:
			clear(w.items)
			clear(w.counts)
		}
	}
	w.at = end
	w.history = append(w.history, past{end, w.counts.Clone()})
}

func (w *witness) leave(id int64) {
	if p, there := w.items[id]; there {
		w.counts.Add(p.exporter, p.state, -1)
		delete(w.items, id)
	}
}

func (w *witness) Idle(at replication.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = max(w.at, at)
}

// agrees says whether counts are those at the position, as soon as the witness has come there.
func (w *witness) agrees(at replication.LSN, counts machine.Counts) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at < at {
		return false, nil
	}
	after := sort.Search(len(w.history), func(i int) bool { return w.history[i].end > at })
	if want := w.history[after-1].counts; !want.Equal(counts) {
		return false, fmt.Errorf("at %v: counts are %v, want %v", at, counts.Nested(), want.Nested())
	}
	return true, nil
}
