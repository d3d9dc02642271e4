package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-relay/weir/internal/daemon"
)

// Expense is what a number of items has cost.
type Expense struct {
	// WALBytes is what the whole server wrote to its log for each item, from the producer's insert on.
	WALBytes float64 `json:"wal_bytes_per_item"`
	// HOT is the share of the updates of weir.deliveries that touched no index.
	HOT float64 `json:"hot_ratio"`
	// PostgresCPU is what the whole server took, in seconds; 0 where it isn't on this machine.
	PostgresCPU float64 `json:"postgres_cpu_seconds"`
	// RelayCPU is what the relay's process took, in seconds, and MaxRSS the most memory it had.
	RelayCPU float64 `json:"relay_cpu_seconds,omitempty"`
	MaxRSS   int64   `json:"relay_max_rss_bytes,omitempty"`
}

// reading is how the server's meters stand.
type reading struct {
	wal         int64
	hot, update int64
	cpu         time.Duration
}

func (s *server) read(ctx context.Context) (m reading, err error) {
	err = s.pool.QueryRow(ctx, `
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
       pg_stat_get_tuples_hot_updated('weir.deliveries'::regclass),
       pg_stat_get_tuples_updated('weir.deliveries'::regclass)`).Scan(&m.wal, &m.hot, &m.update)
	if err != nil {
		return m, fmt.Errorf("read the server's statistics: %w", err)
	}
	if s.backend != 0 {
		m.cpu, err = daemon.FamilyCPU(s.backend)
	}
	return m, err
}

// tab adds up the costs of what happens between its on and off.
type tab struct {
	server *server
	since  reading
	sum    reading
	items  int
	relay  daemon.Cost
}

func (t *tab) on(ctx context.Context) (err error) {
	t.since, err = t.server.read(ctx)
	return err
}

// off takes in what n items have cost. A backend reports its updates when it ends, so that has to be before.
func (t *tab) off(ctx context.Context, n int) error {
	now, err := t.server.read(ctx)
	if err != nil {
		return err
	}
	t.sum.wal += now.wal - t.since.wal
	t.sum.hot += now.hot - t.since.hot
	t.sum.update += now.update - t.since.update
	t.sum.cpu += now.cpu - t.since.cpu
	t.items += n
	return nil
}

// relayed takes in what a relay has cost since before.
func (t *tab) relayed(before, after daemon.Cost) {
	t.relay.CPU += after.CPU - before.CPU
	t.relay.MaxRSS = max(t.relay.MaxRSS, after.MaxRSS)
}

func (t *tab) expense() Expense {
	return Expense{
		WALBytes:    ratio(float64(t.sum.wal), float64(t.items)),
		HOT:         ratio(float64(t.sum.hot), float64(t.sum.update)),
		PostgresCPU: t.sum.cpu.Seconds(),
		RelayCPU:    t.relay.CPU.Seconds(),
		MaxRSS:      t.relay.MaxRSS,
	}
}

// ratio is a/b, 0 where b is.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
