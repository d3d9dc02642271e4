package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// drain lets a peer start on a backlog and do nothing with it, and says how many items a second went: from
// the first call to the commit that recorded the last item as done. The first call isn't seen of weir, whose
// time begins a little earlier, with its first claim.
func (b *bench) drain(ctx context.Context, p peer) (_ float64, err error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	t, err := b.begin(ctx, p)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.end(context.WithoutCancel(ctx))) }()
	if err := t.backlog(ctx, b.items); err != nil {
		return 0, err
	}
	if err := t.vacuum(ctx); err != nil {
		return 0, err
	}
	w, err := t.start(b.receiver.url, true)
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
	return t.rate(ctx)
}

// backlogBatch is how many items of a backlog are committed at once.
const backlogBatch = 1000

// backlog commits n items.
func (t *turn) backlog(ctx context.Context, n int) error {
	for first := 1; first <= n; first += backlogBatch {
		items := newItems(int64(first), min(backlogBatch, n-first+1))
		err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error { return t.stage(ctx, tx, items) })
		if err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}

func (t *turn) rate(ctx context.Context) (float64, error) {
	began, err := t.began(ctx)
	if err != nil {
		return 0, err
	}
	var finished time.Time
	var done int
	if err := t.pool.QueryRow(ctx, t.peer.finished).Scan(&finished, &done); err != nil {
		return 0, fmt.Errorf("read how long the backlog took: %w", err)
	}
	if done != t.items {
		return 0, fmt.Errorf("need %d items done, %d are", t.items, done)
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
	if len(arrivals) != 1 {
		return at, fmt.Errorf("need the first item's arrival alone, got %d", len(arrivals))
	}
	for _, at = range arrivals {
	}
	return at, nil
}
