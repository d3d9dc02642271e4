package relay

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// queueBound bounds the items that wait in a lane's memory for another item with their key. The others go
// back to the table, so that one busy key leaves room for the rest.
const queueBound = 4

// queue is what waits behind the item of one key that is in flight.
type queue struct {
	waiting []held
	back    int           // handed back since the key became busy
	took    time.Duration // how long the key's last call took
}

// held is a claimed item, how long its lease holds, and whether it is a probe of the gate.
type held struct {
	item  machine.Item
	until time.Time
	probe bool
}

// deliver sends what was claimed: a goroutine a call. It never waits.
func (l *Lane) deliver(ctx context.Context, c claimed) {
	now := time.Now()
	ready := c.items[:0]
	for i := range c.items {
		it := &c.items[i]
		if why := it.Exhausted(l.store.Policy()); why != "" {
			if c.probe {
				l.gate.withdraw()
			}
			l.settler.add(exhausted(*it, why))
			continue
		}
		if at, ok := c.commit[it.ID]; ok && !at.IsZero() {
			l.metrics.commitToSend.Observe(now.Sub(at).Seconds())
		}
		ready = append(ready, *it)
	}
	if len(ready) == 0 {
		return
	}
	l.mu.Lock()
	l.held += len(ready)
	l.mu.Unlock()
	if l.key != nil {
		for _, it := range ready {
			l.sendKeyed(ctx, held{it, c.until, c.probe})
		}
		return
	}
	for len(ready) > 0 {
		n := min(len(ready), l.limits.Batch)
		batch := ready[:n:n]
		ready = ready[n:]
		l.spend()
		go func() {
			l.call(ctx, batch, c.until, c.probe)
			l.release(len(batch), 1)
		}()
	}
}

// sendKeyed sends an item, unless another one with its key is in flight: then it waits for that, or goes
// back.
func (l *Lane) sendKeyed(ctx context.Context, h held) {
	key := l.keyOf(&h.item)
	if key == "" {
		l.spend()
		go func() {
			l.call(ctx, []machine.Item{h.item}, h.until, h.probe)
			l.release(1, 1)
		}()
		return
	}
	l.mu.Lock()
	q, busy := l.queues[key]
	switch {
	case !busy:
		l.queues[key] = &queue{}
		l.mu.Unlock()
		l.spend()
		go l.sendQueue(ctx, key, h)
	case len(q.waiting) < queueBound:
		q.waiting = append(q.waiting, h)
		l.mu.Unlock()
		l.spendToken()
	default:
		q.back++
		turn := time.Duration(q.back+len(q.waiting)) * max(q.took, 10*time.Millisecond)
		l.mu.Unlock()
		if h.probe {
			l.gate.withdraw()
		}
		l.handBack(h.item, turn, "others with its key are in flight")
		l.release(1, 0)
	}
}

// sendQueue sends the items of one key, one after the other, until none waits. They share a slot: a busy key
// leaves the others to the rest.
func (l *Lane) sendQueue(ctx context.Context, key string, next held) {
	for {
		start := time.Now()
		l.call(ctx, []machine.Item{next.item}, next.until, next.probe)
		l.release(1, 0)
		l.mu.Lock()
		q := l.queues[key]
		q.took = time.Since(start)
		if len(q.waiting) == 0 {
			delete(l.queues, key)
			l.mu.Unlock()
			l.release(0, 1)
			return
		}
		next, q.waiting = q.waiting[0], q.waiting[1:]
		l.mu.Unlock()
	}
}

// handBackQueued hands back what waits in queues; what is in flight goes on.
func (l *Lane) handBackQueued() {
	l.mu.Lock()
	var waiting []held
	for _, q := range l.queues {
		waiting = append(waiting, q.waiting...)
		q.waiting = nil
	}
	l.mu.Unlock()
	for _, h := range waiting {
		l.handBack(h.item, 0, "the relay is shutting down")
	}
	l.release(len(waiting), 0)
}

// handBack returns an item that was not sent: the claim is undone.
func (l *Lane) handBack(it machine.Item, delay time.Duration, why string) {
	l.settler.add(settlement{it, handedBack(delay, why)})
}

func handedBack(delay time.Duration, why string) exporter.Outcome {
	return exporter.Outcome{
		Kind: exporter.Retry, Signal: exporter.Unasked, Cost: machine.Unsent, After: max(delay, time.Nanosecond),
		Code: "handed_back", Detail: why,
	}
}

// tooLate is when an item whose lease was about to end is due again: not at once, since it would come too
// late again.
const tooLate = time.Second

// call makes one call of Deliver and passes its outcomes on.
func (l *Lane) call(ctx context.Context, items []machine.Item, until time.Time, probe bool) {
	// A process that was stopped in between must not send under a lease that somebody else may hold by now.
	if ctx.Err() != nil || left(until) < l.limits.Timeout {
		if probe {
			l.gate.withdraw()
		}
		for _, it := range items {
			l.handBack(it, tooLate, "its lease was about to end before it was sent")
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.limits.Timeout)
	defer cancel()
	start := time.Now()
	outcomes := l.try(ctx, items)
	took := time.Since(start)
	l.metrics.delivered(outcomes, took)
	now := time.Now()
	l.mu.Lock()
	inFlight := l.slots
	l.mu.Unlock()
	telling := mostTelling(outcomes)
	l.window.done(telling.Signal, took, inFlight, now)
	for i := range items {
		l.gate.waive(&outcomes[i])
	}
	l.observe(telling, probe, now)
	for i := range items {
		l.settler.add(settlement{items[i], outcomes[i]})
	}
}

// left is how long a lease holds that ends at until: by the clock that goes on while the process is stopped,
// and by the one that goes on while the host sleeps; the shorter.
func left(until time.Time) time.Duration {
	now := time.Now()
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// mostTelling is the outcome that says most of the provider: that it works is what all others say.
func mostTelling(outcomes []exporter.Outcome) *exporter.Outcome {
	telling := &outcomes[0]
	for i := range outcomes {
		switch outcomes[i].Signal {
		case exporter.Unasked:
		case exporter.Healthy:
			if telling.Signal == exporter.Unasked {
				telling = &outcomes[i]
			}
		default:
			telling = &outcomes[i]
		}
	}
	return telling
}

// observe lets the gate know what an outcome says of the provider.
func (l *Lane) observe(o *exporter.Outcome, probe bool, now time.Time) {
	before := l.gate.paused()
	l.gate.observe(o, probe, now)
	after := l.gate.paused()
	switch {
	case before == after:
	case after == "":
		l.log.Info("the provider takes items again", "was", before)
		l.room()
	default:
		l.log.Warn("the lane pauses; its items wait and keep their attempts", "reason", after, "code", o.Code, "detail", o.Detail)
	}
}

// try calls the exporter. An exporter that panics or answers too little has left its items in doubt; a retry
// with the same identifier is safe inside the horizon.
func (l *Lane) try(ctx context.Context, items []machine.Item) (outcomes []exporter.Outcome) {
	unknown := func(code, detail string) []exporter.Outcome {
		o := exporter.Outcome{Kind: exporter.Retry, Signal: exporter.Unreachable, Code: code, Detail: detail}
		all := make([]exporter.Outcome, len(items))
		for i := range all {
			all[i] = o
		}
		return all
	}
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("the exporter panicked; its items are tried again", "panic", p, "stack", string(debug.Stack()))
			outcomes = unknown("exporter_panic", fmt.Sprint(p))
		}
	}()
	outcomes = l.export.Deliver(ctx, items)
	if len(outcomes) != len(items) {
		return unknown("exporter_answer", fmt.Sprintf("%d outcomes for %d items", len(outcomes), len(items)))
	}
	for i := range outcomes {
		if k := outcomes[i].Kind; k == 0 || k > exporter.Quarantined {
			outcomes[i] = unknown("exporter_answer", fmt.Sprintf("outcome of kind %d", k))[0]
		}
	}
	return outcomes
}

// release lets items go, and gives slots free.
func (l *Lane) release(items, slots int) {
	l.mu.Lock()
	l.held -= items
	l.slots -= slots
	l.mu.Unlock()
	l.room()
}

// room says that there may be room for more.
func (l *Lane) room() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// waitIdle waits until nothing is in flight, or until ctx ends: then an exporter hasn't kept to its deadline.
func (l *Lane) waitIdle(ctx context.Context) {
	for {
		l.mu.Lock()
		held := l.held
		l.mu.Unlock()
		if held == 0 {
			return
		}
		select {
		case <-l.freed:
		case <-ctx.Done():
			l.log.Error("calls to the provider did not return in time and are left behind; their items are claimed again when their leases have expired", "items", held)
			return
		}
	}
}
