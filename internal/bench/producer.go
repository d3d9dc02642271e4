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

const insertSome = `
INSERT INTO weir.outbox (tenant_key, subject_ref, exporter, mode, mapping_version, payload)
SELECT 'bench', $1::text || ':' || i, $2, 'test', '1',
       jsonb_build_object('customer', 'cus_' || i % $6::bigint, 'meter', 'requests', 'value', '1', 'timestamp', $5::bigint)
  FROM generate_series($3::bigint, $4::bigint - 1) i`

// produce commits n items, rate a second, so many in a transaction, each transaction at its own time. It is an
// open loop: nobody waits for the relay, nor for an earlier item.
func (r *rig) produce(ctx context.Context, lane, name string, rate float64, n, together int) (produced, error) {
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
				to := next.Add(int64(together))
				i := to - int64(together)
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
				if _, err := conn.Exec(ctx, insertSome, name, lane, i, min(to, int64(n)), due.Unix(), customers); err != nil {
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
