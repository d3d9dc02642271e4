package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// warmUp is how many items a turn begins with that aren't measured: connections and plans are made then.
const warmUp = 100

// spread is what one turn shows: from the commit to the request's arrival, in milliseconds.
type spread struct {
	p50, p99 float64
	repeats  int
}

// latency lets a peer deliver what is committed at a steady rate.
func (b *bench) latency(ctx context.Context, p peer) (_ spread, err error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	t, err := b.begin(ctx, p)
	if err != nil {
		return spread{}, err
	}
	defer func() { err = errors.Join(err, t.end(context.WithoutCancel(ctx))) }()
	if err := t.vacuum(ctx); err != nil {
		return spread{}, err
	}
	b.receiver.reset(0)
	w, err := t.start(b.receiver.url, false)
	if err != nil {
		return spread{}, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	n := int(b.rate * b.slice.Seconds())
	for _, load := range []struct{ first, n int }{{1, warmUp}, {1 + warmUp, n}} {
		if err := t.produce(ctx, b.rate, int64(load.first), load.n); err != nil {
			return spread{}, err
		}
		sent := load.first + load.n - 1
		err := t.until(ctx, w, func() (bool, error) { return b.receiver.count() >= sent, nil })
		if err != nil {
			return spread{}, fmt.Errorf("need %d items, %d arrived: %w", sent, b.receiver.count(), err)
		}
	}
	return t.spread(ctx, n)
}

// spread compares when the last n items were committed with when they arrived. A commit's time is taken by
// Postgres before it makes the commit durable and seen: what nobody could have sent any sooner is part of it.
func (t *turn) spread(ctx context.Context, n int) (spread, error) {
	arrivals, repeats := t.receiver.arrivals()
	rows, err := t.pool.Query(ctx, `SELECT number, pg_xact_commit_timestamp(xmin) FROM usage WHERE number > $1`, warmUp)
	if err != nil {
		return spread{}, err
	}
	defer rows.Close()
	var took []time.Duration
	for rows.Next() {
		var number int64
		var commit time.Time
		if err := rows.Scan(&number, &commit); err != nil {
			return spread{}, err
		}
		took = append(took, arrivals[number].Sub(commit))
	}
	if err := rows.Err(); err != nil {
		return spread{}, err
	}
	if len(took) != n {
		return spread{}, fmt.Errorf("need %d items, %d were committed", n, len(took))
	}
	slices.Sort(took)
	return spread{quantile(took, 0.50), quantile(took, 0.99), repeats}, nil
}

// quantile is that of sorted durations, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	at := int(q * float64(len(sorted)))
	return sorted[min(at, len(sorted)-1)].Seconds() * 1000
}
