package torture

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
)

// again ends a relay, and starts it after a while.
func (w *world) again(ctx context.Context, r *relay, after time.Duration, end func() error) error {
	if err := end(); err != nil {
		return err
	}
	if err := sleep(ctx, after); err != nil {
		return err
	}
	return r.start()
}

// freeze stops a relay's clock for a while.
func (w *world) freeze(ctx context.Context, r *relay, d time.Duration) error {
	sent, err := r.signal(syscall.SIGSTOP)
	if err != nil || !sent {
		return missed(err)
	}
	defer r.signal(syscall.SIGCONT) //nolint:errcheck // it ended by then, or hears it
	return sleep(ctx, d)
}

// freezeHolder freezes the relay that is sending an item until somebody else has claimed it. The outcome that
// it comes back with must change nothing, and be counted.
func (w *world) freezeHolder(ctx context.Context) error {
	if len(w.relays) < 2 {
		return fmt.Errorf("%w: nobody else is there to claim", errMissed)
	}
	it := w.aim()
	off, err := w.fault(it, sandbox.Action{Kind: sandbox.FaultDelay, When: sandbox.After, Delay: callTimeout / 2}, 1)
	if err != nil {
		return err
	}
	defer off()
	if _, err := w.enqueueOne(ctx, it); err != nil {
		return err
	}
	c, err := w.caught(ctx, it, func(call) bool { return true })
	if err != nil {
		return err
	}
	r := w.relays[c.relay]
	before, errBefore := r.metric(ctx, "weir_stale_writes_total", "")
	incarnation := r.now()
	sent, err := r.signal(syscall.SIGSTOP)
	if err != nil || !sent {
		return missed(err)
	}
	w.journal.note("relay %d is frozen while it holds %s", r.index, it.Ref)
	token, _ := w.token(ctx, it)
	bounded, cancel := context.WithTimeout(ctx, lease+moment)
	overtaken := poll(bounded, func() bool {
		now, state := w.token(ctx, it)
		return now > token && token > 0 && state != "pending"
	})
	cancel()
	if _, err := r.signal(syscall.SIGCONT); err != nil {
		return missed(err)
	}
	if overtaken != nil || errBefore != nil {
		return fmt.Errorf("%w: nobody claimed the item meanwhile", errMissed)
	}
	w.journal.note("relay %d goes on; somebody else has claimed %s", r.index, it.Ref)
	bounded, cancel = context.WithTimeout(ctx, 2*moment)
	defer cancel()
	err = poll(bounded, func() bool {
		n, err := r.metric(ctx, "weir_stale_writes_total", "")
		return err == nil && n > before || r.now() != incarnation
	})
	if err != nil && ctx.Err() == nil && !w.quietDatabase() {
		return fmt.Errorf("%w: the database was in trouble", errMissed)
	}
	if err != nil && ctx.Err() == nil {
		w.fail("relay %d came back with the outcome of a lease that was over, and counted no stale write", r.index)
		return nil
	}
	return err
}

// now is the incarnation that runs.
func (r *relay) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.incarnation
}

// token is the item's lease_token and state; zero where it can't be had.
func (w *world) token(ctx context.Context, it Item) (token int64, state string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = w.db().QueryRow(ctx, `SELECT lease_token, state FROM weir.items WHERE subject_ref = $1`, it.Ref).Scan(&token, &state)
	return token, state
}

// fault makes the provider do something to the first n calls of an item.
func (w *world) fault(it Item, action sandbox.Action, n int) (off func(), err error) {
	id, err := w.provider.AddFault(sandbox.Rule{Name: it.Ref, Match: sandbox.Match{Identifier: it.identifier(), First: n}, Action: action})
	return func() { w.provider.RemoveFault(id) }, err
}

// caught waits for a call of an item.
func (w *world) caught(ctx context.Context, it Item, is func(call) bool) (c call, err error) {
	err = until(ctx, func(ctx context.Context) error {
		c, err = w.provider.awaitCall(ctx, it.identifier(), is)
		return err
	})
	return c, err
}

func (w *world) slowProvider(ctx context.Context, d time.Duration) error {
	id, err := w.provider.AddFault(sandbox.Rule{Name: "slow", Action: sandbox.Action{Kind: sandbox.FaultDelay, Delay: callTimeout * 8 / 10}})
	if err != nil {
		return err
	}
	defer w.provider.RemoveFault(id)
	return errors.Join(sleep(ctx, d))
}
