package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// backlog is what a peer finds when it starts.
type backlog struct {
	items int
	idle  bool          // nothing is sent: what counts is the peer's own work
	delay time.Duration // otherwise, what each answer takes
}

// drain lets a peer start on a backlog, and says how many items a second went: from the first call to the
// commit that recorded the last item as done. Idle, the first call isn't seen of weir, whose time begins a
// little earlier, with its first claim.
func (b *bench) drain(ctx context.Context, p peer, load backlog) (_ float64, err error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	t, err := b.begin(ctx, p)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.end(context.WithoutCancel(ctx))) }()
	if err := t.enqueue(ctx, load.items); err != nil {
		return 0, err
	}
	if err := t.vacuum(ctx); err != nil {
		return 0, err
	}
	b.receiver.reset(load.delay)
	w, err := t.start(b.receiver.url, load.idle)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	err = t.until(ctx, w, func() (bool, error) {
		var open bool
		err := t.pool.QueryRow(ctx, p.open).Scan(&open)
		return !open, err
	})
	if err != nil {
		return 0, err
	}
	return t.rate(ctx, load.items)
}

// batch is how many items of a backlog are committed at once.
const batch = 1000

// enqueue commits n items.
func (t *turn) enqueue(ctx context.Context, n int) error {
	for first := 1; first <= n; first += batch {
		items := newItems(int64(first), min(batch, n-first+1))
		err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error { return t.stage(ctx, tx, items) })
		if err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}

func (t *turn) rate(ctx context.Context, n int) (float64, error) {
	began, err := t.began(ctx)
	if err != nil {
		return 0, err
	}
	var finished time.Time
	var done int
	if err := t.pool.QueryRow(ctx, t.peer.finished).Scan(&finished, &done); err != nil {
		return 0, fmt.Errorf("read how long the backlog took: %w", err)
	}
	if done != n {
		return 0, fmt.Errorf("need %d items done, %d are", n, done)
	}
	return float64(done) / finished.Sub(began).Seconds(), nil
}

// began is when the first item was taken.
func (t *turn) began(ctx context.Context) (at time.Time, err error) {
	if t.peer.work == nil {
		err = t.pool.QueryRow(ctx, `SELECT min(first_attempt_at) FROM weir.deliveries`).Scan(&at)
		return at, err
	}
	arrivals, _ := t.receiver.arrivals()
	for _, arrived := range arrivals {
		if at.IsZero() || arrived.Before(at) {
			at = arrived
		}
	}
	if at.IsZero() {
		return at, errors.New("no item arrived")
	}
	return at, nil
}
