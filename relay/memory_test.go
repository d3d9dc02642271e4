package relay

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter/null"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// inUse is what of the heap is in use after a collection.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// lesson 15: what waits when a relay starts is taken in by the same bounds as what comes while it runs. Each item carries a
// payload, so that all of them together would be many times the limit.
func TestRestartWithABacklog(t *testing.T) {
	const (
		n     = 100_000
		limit = 32 << 20
	)
	db := pgtest.Migrated(t)
	first := start(t, db.URL(), null.Exporter{}, nil)
	first.streams(t)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	// The slot is there and keeps the log: the second relay hears of all of them by the stream and by its sweep.
	db.Exec(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
		SELECT 't', g::text, 'test', '1', jsonb_build_object('text', repeat('x', 1000)) FROM generate_series(1, $1::int) g`, n)
	limits := null.Exporter{}.Limits()
	calls := limits.Calls * limits.Batch // what may be with the provider at once
	before := inUse()
	r := start(t, db.URL(), null.Exporter{}, func(c *Config) { c.Replication.Slot = first.config.Replication.Slot })
	var grown int64
	var measured time.Time
	pgtest.Eventually(t, 5*patience, func() error {
		s := r.Status()
		l := s.Lanes[0]
		if l.Ready > agendaBound || l.Later > agendaBound || l.Held > calls || l.Unsettled > 4*settleBound+calls {
			t.Fatalf("more is held than the bounds say: %+v", l)
		}
		if time.Since(measured) > 50*time.Millisecond {
			grown, measured = max(grown, inUse()-before), time.Now()
		}
		if s.Checkpoint == nil {
			return fmt.Errorf("it doesn't lead yet: %+v", l)
		}
		if got := s.Checkpoint.Counts.Get("stripe", machine.Accepted); got != n {
			return fmt.Errorf("%d of %d accepted, lane %+v", got, n, l)
		}
		return nil
	})
	if grown > limit {
		t.Errorf("the heap grew by %d MiB, want at most %d", grown>>20, limit>>20)
	}
	t.Logf("the heap grew by %d KiB at most", grown>>10)
}
