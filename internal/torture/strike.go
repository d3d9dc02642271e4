package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
)

// errMissed says that a strike waited in vain for the moment at which it was to strike: something else was
// broken too. It is noted, and nothing is wrong.
var errMissed = errors.New("missed its moment")

// moment bounds the wait for a strike's moment.
const moment = 3 * time.Second

// processStrikes and databaseStrikes are what a track draws from.
var (
	processStrikes = []string{
		"kill", "kill", "stop", "freeze", "freeze-holder",
		"kill-after-enqueue", "kill-after-claim", "kill-after-request", "kill-after-taken", "kill-after-answer",
		"kill-after-settle", "kill-before-status", "outage", "slow-provider",
	}
	databaseStrikes = []string{
		"crash-postgres", "kill-postgres", "terminate-pool", "terminate-walsender", "cut-pool", "cut-stream",
		"hold-pool", "hold-stream", "swallow-pool", "swallow-stream", "half-pool", "half-stream", "cut-message-pool",
		"cut-message-stream", "delay", "drop-slot", "steal-slot", "lose-slot", "late-visibility", "long-transaction",
	}
)

// strikes plays one track.
func (w *world) strikes(ctx context.Context, track []Strike) {
	for _, s := range track {
		if sleep(ctx, s.Pause) != nil {
			return
		}
		w.journal.note("strike: %v", s)
		err := w.strike(ctx, s)
		switch {
		case errors.Is(err, errMissed):
			w.journal.note("strike %s: %v", s.Kind, err)
		case err != nil && ctx.Err() == nil:
			w.fail("harness: strike %s: %w", s.Kind, err)
		default:
			w.journal.note("strike %s is over", s.Kind)
		}
	}
}

func (w *world) strike(ctx context.Context, s Strike) error {
	r := w.relays[s.Relay]
	switch s.Kind {
	case "kill":
		return w.again(ctx, r, s.For/4, r.kill)
	case "stop":
		return w.again(ctx, r, s.For/4, r.stop)
	case "freeze":
		return w.freeze(ctx, r, s.For*2)
	case "freeze-holder":
		return w.freezeHolder(ctx)
	case "kill-after-enqueue":
		return w.killAfterEnqueue(ctx, r)
	case "kill-after-claim":
		return w.killAfterClaim(ctx)
	case "kill-after-request":
		return w.killAtCall(ctx, sandbox.Before)
	case "kill-after-taken":
		return w.killAtCall(ctx, sandbox.After)
	case "kill-after-answer":
		return w.killAtSettle(ctx, toServer)
	case "kill-after-settle":
		return w.killAtSettle(ctx, toRelay)
	case "kill-before-status":
		return w.killBeforeStatus(ctx)
	case "outage":
		w.provider.Down(true)
		defer w.provider.Down(false)
		return sleep(ctx, s.For*2)
	case "slow-provider":
		return w.slowProvider(ctx, s.For)
	case "crash-postgres":
		return w.crash(ctx, w.arena.cluster.Crash, s.For)
	case "kill-postgres":
		return w.crash(ctx, w.arena.cluster.Kill, s.For)
	case "terminate-pool":
		return w.terminate(ctx, "client backend")
	case "terminate-walsender":
		return w.terminate(ctx, "walsender")
	case "cut-pool":
		return cut(ctx, r.pool, s.For)
	case "cut-stream":
		return cut(ctx, r.stream, s.For)
	case "hold-pool":
		return r.pool.during(ctx, s.For, harm{hold: true}, toServer, toRelay)
	case "hold-stream":
		return r.stream.during(ctx, s.For, harm{hold: true}, toServer, toRelay)
	case "swallow-pool":
		return forgotten(ctx, r.pool, s.For, harm{swallow: true}, toServer, toRelay)
	case "swallow-stream":
		return forgotten(ctx, r.stream, s.For, harm{swallow: true}, toServer, toRelay)
	case "half-pool":
		return forgotten(ctx, r.pool, s.For, harm{swallow: true}, toRelay)
	case "half-stream":
		return forgotten(ctx, r.stream, s.For, harm{swallow: true}, toServer)
	case "cut-message-pool":
		return forgotten(ctx, r.pool, s.For, harm{limit: s.N}, toRelay)
	case "cut-message-stream":
		return forgotten(ctx, r.stream, s.For, harm{limit: s.N}, toRelay)
	case "delay":
		return r.pool.during(ctx, s.For, harm{delay: s.For / 20}, toServer, toRelay)
	case "drop-slot":
		return w.dropSlot(ctx)
	case "steal-slot":
		return w.stealSlot(ctx, s.For*2)
	case "lose-slot":
		return w.loseSlot(ctx)
	case "late-visibility":
		return w.lateVisibility(ctx, s.For)
	case "long-transaction":
		return w.longTransaction(ctx, s.For*2)
	}
	return fmt.Errorf("there is no strike %q", s.Kind)
}

// aim makes an item for a strike: its customer and key are its own, so that it waits for nobody.
func (w *world) aim() Item {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aimed++
	ref := fmt.Sprintf("%d/aim-%d", w.plan.Seed, w.aimed)
	return Item{Ref: ref, Customer: fmt.Sprintf("cus_aim_%d", w.aimed), Meter: meters[0], Value: w.aimed, At: w.plan.At}
}

// until runs f with at most moment of time, and makes a miss of it where that was too short.
func until(ctx context.Context, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	err := f(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errMissed, err)
	}
	return err
}

// missed makes a miss of an error.
func missed(err error) error { return fmt.Errorf("%w: %w", errMissed, err) }
