package torture

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
)

// The crash points: each kills a relay at one step of an item's way, which it waits for from outside.

// killAfterEnqueue kills at the moment of a commit.
func (w *world) killAfterEnqueue(ctx context.Context, r *relay) error {
	if _, err := w.enqueueOne(ctx, w.aim()); err != nil {
		return err
	}
	return w.again(ctx, r, 20*time.Millisecond, r.kill)
}

// killAfterClaim kills a relay whose claim has committed and that doesn't know it.
func (w *world) killAfterClaim(ctx context.Context) error {
	for _, r := range w.relays {
		defer r.pool.put(harm{hold: true}, toRelay)()
	}
	it := w.aim()
	if _, err := w.enqueueOne(ctx, it); err != nil {
		return err
	}
	var owner string
	err := until(ctx, func(ctx context.Context) error {
		return poll(ctx, func() bool {
			err := w.db().QueryRow(ctx, `SELECT lease_owner FROM weir.items WHERE subject_ref = $1 AND state = 'leased'`, it.Ref).Scan(&owner)
			return err == nil
		})
	})
	if err != nil {
		return err
	}
	r := w.relays[ownerIndex(owner)]
	return w.again(ctx, r, 20*time.Millisecond, r.kill)
}

// ownerIndex is the relay of a lease_owner, as in r1.3.
func ownerIndex(owner string) int {
	var index int
	if _, err := fmt.Sscanf(strings.TrimPrefix(owner, "r"), "%d", &index); err != nil {
		return 0
	}
	return index
}

// killAtCall kills a relay whose request has arrived and is not answered: before it took effect, or after.
func (w *world) killAtCall(ctx context.Context, when sandbox.When) error {
	it := w.aim()
	off, err := w.fault(it, sandbox.Action{Kind: sandbox.FaultHang, When: when}, 1)
	if err != nil {
		return err
	}
	defer off()
	if _, err := w.enqueueOne(ctx, it); err != nil {
		return err
	}
	c, err := w.caught(ctx, it, func(call) bool {
		entry, _ := w.provider.Entry(it.identifier())
		return when == sandbox.Before || entry.Billed > 0
	})
	if err != nil {
		return err
	}
	r := w.relays[c.relay]
	return w.again(ctx, r, 20*time.Millisecond, r.kill)
}

// killAtSettle kills a relay that has its answer: before its settle reaches the server, or once that has
// committed and before it knows.
func (w *world) killAtSettle(ctx context.Context, d direction) error {
	it := w.aim()
	off, err := w.fault(it, sandbox.Action{Kind: sandbox.FaultDelay, Delay: 60 * time.Millisecond}, 1)
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
	defer r.pool.put(harm{hold: true}, d)()
	if d == toServer {
		if _, err := w.caught(ctx, it, func(c call) bool { return !c.ended.IsZero() }); err != nil {
			return err
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	} else {
		err := until(ctx, func(ctx context.Context) error {
			return poll(ctx, func() bool {
				_, state := w.token(ctx, it)
				return state == "accepted"
			})
		})
		if err != nil {
			return err
		}
	}
	return w.again(ctx, r, 20*time.Millisecond, r.kill)
}

// killBeforeStatus kills the relay that streams, when the checkpoint has been written and the server has not
// been told.
func (w *world) killBeforeStatus(ctx context.Context) error {
	for _, r := range w.relays {
		if !r.streams(ctx) {
			continue
		}
		defer r.stream.put(harm{hold: true}, toServer)()
		lsn, err := w.enqueueOne(ctx, w.aim())
		if err != nil {
			return err
		}
		err = until(ctx, func(ctx context.Context) error {
			return poll(ctx, func() bool {
				var written bool
				err := w.db().QueryRow(ctx, `SELECT lsn >= $2::text::pg_lsn FROM weir.checkpoints WHERE slot = $1`, w.slot(), lsn).Scan(&written)
				return err == nil && written
			})
		})
		if err != nil {
			return err
		}
		return w.again(ctx, r, 20*time.Millisecond, r.kill)
	}
	return fmt.Errorf("%w: nobody streams", errMissed)
}
