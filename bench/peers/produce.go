package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// producers is how many connections commit items, so that one slow commit doesn't hold up the next.
const producers = 4

// produce commits n items from number first on, each with a row of the producer's own in a transaction, at
// its own time, rate a second. It is an open loop: nobody waits for a peer, nor for an earlier item.
func (t *turn) produce(ctx context.Context, rate float64, first int64, n int) error {
	var next atomic.Int64
	from := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range producers {
		group.Go(func() error {
			conn, err := t.pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer conn.Release()
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return nil
				}
				if err := sleepUntil(ctx, from.Add(time.Duration(float64(i)/rate*float64(time.Second)))); err != nil {
					return err
				}
				err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return t.commit(ctx, tx, newItem(first+i)) })
				if err != nil {
					return fmt.Errorf("enqueue: %w", err)
				}
			}
		})
	}
	return group.Wait()
}

func (t *turn) commit(ctx context.Context, tx pgx.Tx, it item) error {
	if _, err := tx.Exec(ctx, `INSERT INTO usage VALUES ($1)`, it.Number); err != nil {
		return err
	}
	return t.stage(ctx, tx, []item{it})
}

func sleepUntil(ctx context.Context, when time.Time) error {
	timer := time.NewTimer(time.Until(when))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
