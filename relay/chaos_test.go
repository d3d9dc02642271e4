package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// moody is a provider that does all that one may do, and notices an item that is in flight twice.
type moody struct {
	limits exporter.Limits
	keys   bool

	mu       sync.Mutex
	calm     bool
	inFlight map[string]int // by item, and by key
	accepted map[int64]int
	faults   []string
}

func (m *moody) Limits() exporter.Limits { return m.limits }

func (m *moody) begin(items []machine.Item, n int) (calm bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range items {
		what := []string{fmt.Sprint(items[i].ID)}
		if m.keys {
			what = append(what, items[i].TenantKey)
		}
		for _, w := range what {
			if m.inFlight[w] += n; m.inFlight[w] > 1 {
				m.faults = append(m.faults, w+" is in flight twice")
			}
		}
	}
	return m.calm
}

func (m *moody) Deliver(ctx context.Context, items []machine.Item) []exporter.Outcome {
	calm := m.begin(items, 1)
	defer m.begin(items, -1)
	if !calm {
		switch rand.IntN(20) {
		case 0:
			panic("moody")
		case 1:
			return nil
		case 2: // slow
			ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
			<-ctx.Done()
			cancel()
		}
	}
	out := make([]exporter.Outcome, len(items))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range out {
		out[i] = exporter.Outcome{Kind: exporter.Accepted}
		if !calm {
			soon := time.Duration(1 + rand.IntN(int(50*time.Millisecond)))
			switch rand.IntN(20) {
			case 0, 1:
				out[i] = exporter.Outcome{Kind: exporter.Retry, After: soon, Code: "again"}
			case 2:
				out[i] = exporter.Outcome{Kind: exporter.Retry, Signal: exporter.Unreachable, After: soon, Cost: machine.Waived, Code: "away"}
			case 3:
				out[i] = exporter.Outcome{Kind: exporter.Retry, Signal: exporter.Unasked, Cost: machine.Unsent, After: soon, Code: "unsent"}
			}
		}
		if out[i].Kind == exporter.Accepted {
			m.accepted[items[i].ID]++
		}
	}
	return out
}

type moodyKeyed struct{ *moody }

func (moodyKeyed) Key(it *machine.Item) string { return it.TenantKey }

// Producers that commit late and roll back, two relays that come and go, streams that are cut, a provider in all its
// moods: every committed item is accepted once, and none is ever in flight twice.
func TestChaos(t *testing.T) {
	for _, keys := range []bool{false, true} {
		t.Run(fmt.Sprint("keys ", keys), func(t *testing.T) {
			t.Parallel()
			db := pgtest.Migrated(t)
			m := &moody{keys: keys, inFlight: map[string]int{}, accepted: map[int64]int{},
				limits: exporter.Limits{Calls: 6, Batch: 5, Timeout: 5 * time.Second}}
			var e exporter.Exporter = m
			if keys {
				e = moodyKeyed{m}
			}
			relay := func() *rig {
				return start(t, db.URL(), e, func(c *Config) {
					c.Policy = hasty()
					if keys {
						// Two relays don't know of each other's keys.
						c.Replication.Slot += "k"
					}
				})
			}
			a := relay()
			var b *rig
			if !keys {
				b = relay()
			}
			var producers sync.WaitGroup
			committed := 0
			var mu sync.Mutex
			for p := range 4 {
				producers.Go(func() {
					for i := range 25 {
						tx, err := db.Pool().Begin(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						n := 1 + rand.IntN(40)
						_, err = tx.Exec(t.Context(), `
							INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
							SELECT 't' || g % 7, $1::text || g, 'test', '1', '{}' FROM generate_series(1, $2::int) g`, fmt.Sprint(p, ":", i, ":"), n)
						if err == nil && rand.IntN(5) == 0 {
							err = tx.Rollback(t.Context())
							n = 0
						} else if err == nil {
							err = tx.Commit(t.Context())
						}
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						committed += n
						mu.Unlock()
						switch rand.IntN(12) {
						case 0:
							db.Exec(t, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = $1 AND active`, db.Name())
						case 1:
							db.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND application_name = 'weir' AND state = 'idle' LIMIT 1`, db.Name())
						}
					}
				})
			}
			if b != nil {
				if err := a.stop(); err != nil {
					t.Error(err)
				}
				relay()
			}
			producers.Wait()
			m.mu.Lock()
			m.calm = true
			m.mu.Unlock()
			eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: committed})
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, f := range m.faults {
				t.Error(f)
			}
			for id, n := range m.accepted {
				if n != 1 {
					t.Errorf("item %d was accepted %d times", id, n)
				}
			}
		})
	}
}
