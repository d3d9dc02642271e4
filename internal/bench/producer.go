package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// producers is how many connections commit items, so that one slow commit doesn't hold up those that are
// meant to come after it.
const producers = 4

// produced is what a producer did.
type produced struct {
	from, to time.Time
	late     time.Duration // the most that a commit began after its time
}

const insertOne = `
INSERT INTO weir.outbox (tenant_key, subject_ref, exporter, mode, mapping_version, payload)
VALUES ('bench', $1, $2, 'test', '1', jsonb_build_object('customer', $3::text, 'meter', 'requests', 'value', '1', 'timestamp', $4::bigint))`

// produce commits n items, each in a transaction of its own and at its own time, rate a second. It is an
// open loop: nobody waits for the relay, nor for an earlier item.
func (r *rig) produce(ctx context.Context, lane, name string, rate float64, n int) (produced, error) {
	var next atomic.Int64
	var mu sync.Mutex
	p := produced{from: time.Now()}
	group, ctx := errgroup.WithContext(ctx)
	for range producers {
		group.Go(func() error {
			conn, err := r.pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer conn.Release()
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return nil
				}
				due := p.from.Add(time.Duration(float64(i) / rate * float64(time.Second)))
				if err := sleepUntil(ctx, due); err != nil {
					return err
				}
				late := time.Since(due)
				mu.Lock()
				p.late = max(p.late, late)
				mu.Unlock()
				if _, err := conn.Exec(ctx, insertOne, fmt.Sprintf("%s:%d", name, i), lane, fmt.Sprintf("cus_%d", i%customers), due.Unix()); err != nil {
					return fmt.Errorf("enqueue: %w", err)
				}
			}
		})
	}
	err := group.Wait()
	p.to = time.Now()
	return p, err
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
