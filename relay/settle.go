package relay

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// settlement is an item and what became of it, on its way to the table.
type settlement struct {
	item    machine.Item
	outcome exporter.Outcome
}

// settler writes outcomes down, in as few statements as the load allows: what arrives while a settle is in
// flight forms the next one.
type settler struct {
	lane *Lane

	mu      sync.Mutex
	queue   []settlement
	writing int       // outcomes that are being written
	since   time.Time // when that began; zero where none are
	closed  bool
	signal  chan struct{} // holds a token when queue or closed has changed
}

func newSettler(l *Lane) *settler {
	return &settler{lane: l, signal: make(chan struct{}, 1)}
}

// add takes an outcome in. It never waits.
func (s *settler) add(o settlement) {
	s.mu.Lock()
	s.queue = append(s.queue, o)
	s.mu.Unlock()
	s.ring()
}

// full says that settling is so far behind that claiming has to wait.
func (s *settler) full() bool {
	return s.depth() >= 4*settleBound
}

// depth is how many outcomes wait to be written.
func (s *settler) depth() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) + s.writing
}

// stuck is since when the same outcomes have been being written; zero where none are.
func (s *settler) stuck() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}

// close lets run end once everything is written.
func (s *settler) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ring()
}

func (s *settler) ring() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// run writes outcomes until close, or until ctx ends: what isn't written by then stays leased until its
// lease expires.
func (s *settler) run(ctx context.Context) {
	for {
		s.mu.Lock()
		n := min(len(s.queue), settleBound)
		batch := append([]settlement(nil), s.queue[:n]...)
		s.queue = append(s.queue[:0], s.queue[n:]...)
		clear(s.queue[len(s.queue):cap(s.queue)])
		s.writing, s.since = n, time.Time{}
		if n > 0 {
			s.since = time.Now()
		}
		closed := s.closed
		s.mu.Unlock()
		if n == 0 && closed {
			return
		}
		if n > 0 {
			s.write(ctx, batch)
			// Claiming may have waited for room.
			s.lane.room()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.signal:
		}
	}
}

// write settles a batch, a statement a kind. While the database doesn't answer it tries again: the fence
// makes a repetition harmless.
func (s *settler) write(ctx context.Context, batch []settlement) {
	l := s.lane
	var rest settles
	for i := range batch {
		rest.add(&batch[i], l.store.Policy())
	}
	for failures := 0; ; failures++ {
		want := rest.len()
		left, err := s.attempt(ctx, &rest)
		changed := 0
		for state, n := range left {
			l.metrics.settled(state, n)
			changed += n
		}
		// After a failure, a write whose answer was lost is found done: that is not stale.
		if stale := want - rest.len() - changed; stale > 0 && failures == 0 {
			l.metrics.stale.Add(float64(stale))
			l.log.Warn("outcomes came too late: their items were claimed again or settled since; a steady stream of these means that the lease is too short", "items", stale)
		}
		if err == nil {
			l.moved()
			l.wakeSuccessors(ctx, batch)
			return
		}
		if ctx.Err() != nil {
			l.log.Error("outcomes were not written before the shutdown; their items are claimed again when their leases have expired", "items", rest.len(), "error", err)
			return
		}
		pause := machine.Jitter(min(50*time.Millisecond<<min(failures, 6), 2*time.Second))
		l.log.Error("outcomes were not written; weir tries again", "items", rest.len(), "error", err, "in", pause)
		wait(ctx, pause)
	}
}

func (s *settler) attempt(ctx context.Context, rest *settles) (map[machine.State]int, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	return rest.run(ctx, s.lane.store)
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// wakeSuccessors rings for the items that waited in line behind those of batch. Where it fails, a sweep finds
// them.
func (l *Lane) wakeSuccessors(ctx context.Context, batch []settlement) {
	if !l.ordered() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	items := make([]machine.Item, len(batch))
	for i := range batch {
		items[i] = batch[i].item
	}
	ids, err := l.store.Successors(ctx, l.claimer(), items)
	if err != nil {
		l.log.Warn("the next items in line were not found at once; a sweep looks for them", "error", err)
		l.agenda.sweep()
	}
	for _, id := range ids {
		l.agenda.head(id)
	}
}

// settles is a batch by kind.
type settles struct {
	accept     []machine.Acceptance
	retry      []machine.Postponement
	doubt      []machine.Failure
	reject     []machine.Failure
	quarantine []machine.Hold
}

func (s *settles) len() int {
	return len(s.accept) + len(s.retry) + len(s.doubt) + len(s.reject) + len(s.quarantine)
}

// add sorts one settlement in.
func (s *settles) add(o *settlement, policy machine.Policy) {
	ref := o.item.Ref()
	cause := machine.Cause{Code: o.outcome.Code, Detail: o.outcome.Detail}
	switch o.outcome.Kind {
	case exporter.Accepted:
		s.accept = append(s.accept, machine.Acceptance{Ref: ref, ProviderRef: storable(o.outcome.Ref)})
	case exporter.Retry:
		delay := o.outcome.After
		if delay == 0 {
			delay = policy.Backoff(o.item.Attempts)
		}
		s.retry = append(s.retry, machine.Postponement{Ref: ref, Cause: cause, Delay: delay, Cost: o.outcome.Cost, First: o.item.FirstAttempt})
	case exporter.Rejected:
		s.reject = append(s.reject, machine.Failure{Ref: ref, Cause: cause})
	case exporter.Quarantined:
		s.quarantine = append(s.quarantine, machine.Hold{Ref: ref, Cause: cause, First: o.item.FirstAttempt})
	default:
		s.doubt = append(s.doubt, machine.Failure{Ref: ref, Cause: cause})
	}
}

// storable is s as a column takes it: one outcome that the database refuses would keep back all others.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// run runs the statements of the kinds that are left, and empties each kind that was written. It answers how
// many items it left in each state; those that are missing were stale.
func (s *settles) run(ctx context.Context, store *machine.Store) (map[machine.State]int, error) {
	left := make(map[machine.State]int)
	if len(s.accept) > 0 {
		ids, err := store.Accept(ctx, s.accept)
		if err != nil {
			return left, err
		}
		left[machine.Accepted] += len(ids)
		s.accept = nil
	}
	if len(s.retry) > 0 {
		postponed, err := store.Retry(ctx, s.retry)
		if err != nil {
			return left, err
		}
		for _, p := range postponed {
			left[p.State]++
		}
		s.retry = nil
	}
	if len(s.doubt) > 0 {
		ids, err := store.Doubt(ctx, s.doubt)
		if err != nil {
			return left, err
		}
		left[machine.Uncertain] += len(ids)
		s.doubt = nil
	}
	if len(s.reject) > 0 {
		ids, err := store.Reject(ctx, s.reject)
		if err != nil {
			return left, err
		}
		left[machine.Rejected] += len(ids)
		s.reject = nil
	}
	if len(s.quarantine) > 0 {
		ids, err := store.Quarantine(ctx, s.quarantine)
		if err != nil {
			return left, err
		}
		left[machine.Quarantined] += len(ids)
		s.quarantine = nil
	}
	return left, nil
}
