package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-relay/weir/internal/daemon"
)

// MemoryOptions say how much waits.
type MemoryOptions struct {
	Options
	Items int
	Hold  time.Duration // how long the relay is watched once it has heard of all
}

// Memory is what a relay needs while the provider is down and items pile up.
type Memory struct {
	Items int `json:"items"`
	// Empty is a relay's memory before the first item, in bytes; Live the most of one that sees the items
	// come; Restarted the most of one that finds them all there.
	Empty     int64 `json:"empty_bytes"`
	Live      int64 `json:"live_max_bytes"`
	Restarted int64 `json:"restarted_max_bytes"`
	Goal      int64 `json:"goal"`
	Met       bool  `json:"met"`
}

const memoryGoal = 64 << 20

// MeasureMemory fills the outbox under a relay whose provider refuses every connection.
func MeasureMemory(ctx context.Context, o MemoryOptions) (_ *Memory, err error) {
	r, err := setUp(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	provider, err := serve(0)
	if err != nil {
		return nil, err
	}
	defer provider.close()
	provider.Down(true)
	lane := relay{lane: stripeLane(provider.address, 64)}
	m := &Memory{Items: o.Items, Goal: memoryGoal}

	live, err := r.start(ctx, lane)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, live.Stop()) }()
	cost, err := live.Cost()
	if err != nil {
		return nil, err
	}
	m.Empty = cost.RSS
	r.step(fmt.Sprintf("enqueuing %d items while the provider is down", o.Items))
	const batch = 10_000
	for done := 0; done < o.Items; done += batch {
		if err := r.enqueue(ctx, weirLane, fmt.Sprint("wait", done), min(batch, o.Items-done)); err != nil {
			return nil, err
		}
	}
	if m.Live, err = r.hold(ctx, live, o.Hold); err != nil {
		return nil, err
	}
	if err := live.Stop(); err != nil {
		return nil, err
	}

	r.step("starting a relay on them")
	restarted, err := r.start(ctx, lane)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, restarted.Stop()) }()
	if m.Restarted, err = r.hold(ctx, restarted, o.Hold); err != nil {
		return nil, err
	}
	m.Met = max(m.Live, m.Restarted) <= m.Goal
	return m, nil
}

// hold waits until the relay has read all of the log, and some time longer. It answers the most memory that
// the relay has had.
func (r *rig) hold(ctx context.Context, relay *daemon.Relay, d time.Duration) (int64, error) {
	r.step(fmt.Sprintf("watching it for %v", d))
	err := relay.Await(ctx, func() (bool, error) {
		s, err := relay.Status(ctx)
		return err == nil && s.Stream.Mode == "streaming" && s.Stream.LagBytes == 0, nil
	})
	if err != nil {
		return 0, err
	}
	if err := sleepUntil(ctx, time.Now().Add(d)); err != nil {
		return 0, err
	}
	if err := relay.Ended(); err != nil {
		return 0, err
	}
	cost, err := relay.Cost()
	return cost.MaxRSS, err
}
