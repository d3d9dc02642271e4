package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// Passed is what one Pass did, item by item.
type Passed struct {
	Claimed     int
	Accepted    int
	Retried     int // due again later
	Uncertain   int
	Rejected    int
	Quarantined int
	Stale       int // claimed again or settled under this pass
}

// Pass runs exactly one claim → deliver → settle round of the lane of that name, at most limit items, and
// returns when the last is settled. It needs neither Run nor a stream: a test or a program that embeds weir can
// drive a relay with it. It may not be called while Run runs.
func (r *Relay) Pass(ctx context.Context, lane string, limit int) (Passed, error) {
	for _, l := range r.lanes {
		if l.name == lane {
			return l.passOnce(ctx, limit)
		}
	}
	return Passed{}, fmt.Errorf("relay: there is no lane %q", lane)
}

func (l *Lane) passOnce(ctx context.Context, limit int) (Passed, error) {
	n := min(limit, l.limits.Calls*l.perCall(), claimBound)
	if n <= 0 {
		return Passed{}, fmt.Errorf("relay: a pass of %d items: the limit must be above zero", limit)
	}
	until := time.Now().Add(l.store.Policy().Lease)
	items, err := l.store.Sweep(ctx, l.claimer(), 0, n)
	if err != nil {
		return Passed{}, err
	}
	p := Passed{Claimed: len(items)}
	var batch settles
	policy := l.store.Policy()
	for _, o := range l.deliverAll(ctx, items, until) {
		batch.add(&o, policy)
	}
	// The outcomes are facts by now; a caller that has lost its patience must not lose them.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Lease)
	defer cancel()
	left, err := batch.run(ctx, l.store)
	p.Accepted, p.Retried, p.Uncertain, p.Rejected, p.Quarantined =
		left[machine.Accepted], left[machine.Pending], left[machine.Uncertain], left[machine.Rejected], left[machine.Quarantined]
	if err == nil {
		p.Stale = p.Claimed - p.Accepted - p.Retried - p.Uncertain - p.Rejected - p.Quarantined
	}
	return p, err
}

// deliverAll sends items and waits for all outcomes. Items with one key go one after the other. What comes too
// late for its lease, which holds until until, is handed back.
func (l *Lane) deliverAll(ctx context.Context, items []machine.Item, until time.Time) []settlement {
	var mu sync.Mutex
	var all []settlement
	var calls sync.WaitGroup
	send := func(batch []machine.Item) {
		outcomes := make([]exporter.Outcome, len(batch))
		for i := range outcomes {
			outcomes[i] = handedBack(0, "the pass ended before it was sent")
		}
		if l.limiter == nil || l.limiter.Wait(ctx) == nil {
			if ctx.Err() == nil && left(until) >= l.limits.Timeout {
				ctx, cancel := context.WithTimeout(ctx, l.limits.Timeout)
				defer cancel()
				outcomes = l.try(ctx, batch)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range batch {
			all = append(all, settlement{batch[i], outcomes[i]})
		}
	}
	lines := map[string][]machine.Item{}
	var free []machine.Item
	for _, it := range items {
		if why := it.Exhausted(l.store.Policy()); why != "" {
			all = append(all, exhausted(it, why))
			continue
		}
		if key := l.keyOf(&it); key != "" {
			lines[key] = append(lines[key], it)
		} else {
			free = append(free, it)
		}
	}
	for _, line := range lines {
		calls.Go(func() {
			for _, it := range line {
				send([]machine.Item{it})
			}
		})
	}
	for len(free) > 0 {
		n := min(len(free), l.perCall())
		batch := free[:n:n]
		free = free[n:]
		calls.Go(func() { send(batch) })
	}
	calls.Wait()
	return all
}

// keyOf is the exporter's key of it. Where the exporter panics over it, sending it will say so.
func (l *Lane) keyOf(it *machine.Item) (key string) {
	if l.key == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			key = ""
		}
	}()
	return l.key(it)
}

// exhausted is the outcome of an item that must not be sent again.
func exhausted(it machine.Item, why string) settlement {
	return settlement{it, exporter.Outcome{
		Kind: exporter.Uncertain, Signal: exporter.Unasked, Code: "exhausted",
		Detail: "claimed again after the last attempt that was allowed (" + why + "); whether it arrived is not known",
	}}
}
