package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// lesson 14
func TestHealth(t *testing.T) {
	long := stuckAfter + time.Second + 1 // with the timeout of a call
	tests := map[string]struct {
		set     func(l *Lane)
		healthy bool
	}{
		"idle":                        {func(*Lane) {}, true},
		"ready":                       {func(l *Lane) { l.agenda.now(wake{id: 1}) }, false},
		"sweep owed":                  {func(l *Lane) { l.agenda.sweep() }, false},
		"waiting for its time":        {func(l *Lane) { l.agenda.at(1, time.Now().Add(time.Hour)) }, true},
		"held":                        {func(l *Lane) { l.held = 1 }, false},
		"unsettled":                   {func(l *Lane) { l.settler.add(settlement{}) }, false},
		"paused":                      {func(l *Lane) { l.agenda.now(wake{id: 1}); l.gate = *broken() }, true},
		"paused and unsettled":        {func(l *Lane) { l.settler.add(settlement{}); l.gate = *broken() }, false},
		"being written for long":      {func(l *Lane) { l.settler.writing, l.settler.since = 1, time.Now(); l.progressSoon() }, false},
		"busy and gets somewhere":     {func(l *Lane) { l.agenda.now(wake{id: 1}); l.progressSoon() }, true},
		"one slow call, nothing else": {func(l *Lane) { l.held = 1; l.progress.Store(time.Now().Add(2 * time.Second).UnixNano()) }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := loose(t, &scripted{limits: exporter.Limits{Calls: 1, Batch: 1, Timeout: time.Second}})
				r := &Relay{lanes: []*Lane{l}, book: nil}
				if err := r.Ready(); err == nil {
					t.Error("want it not ready before the database has answered")
				}
				l.moved()
				if err := r.Ready(); err != nil {
					t.Errorf("want it ready, got %v", err)
				}
				tt.set(l)
				time.Sleep(long)
				if err := r.Health(); (err == nil) != tt.healthy {
					t.Errorf("want healthy %v, got %v", tt.healthy, err)
				}
			})
		})
	}
}

// progressSoon makes the lane get somewhere just before the test looks.
func (l *Lane) progressSoon() { l.progress.Store(time.Now().Add(stuckAfter).UnixNano()) }

// A settle that waits for a row that somebody else has locked is seen as outcomes that wait.
func TestBlockedSettleIsSeen(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	lock, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it is over by then
	p.say(func(*machine.Item) exporter.Outcome {
		if _, err := lock.Exec(context.WithoutCancel(t.Context()), `SELECT FROM weir.deliveries WHERE state = 'leased' FOR UPDATE`); err != nil {
			t.Error(err)
		}
		return exporter.Outcome{Kind: exporter.Accepted}
	})
	r := start(t, db.URL(), p, nil)
	r.streams(t)
	enqueue(t, db.Pool(), "", 1)
	pgtest.Eventually(t, patience, func() error {
		l := r.Status().Lanes[0]
		if l.Unsettled != 1 || l.Held != 0 {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 1})
}

// The metrics are a contract with dashboards and alerts; none has a label of a tenant.
func TestMetrics(t *testing.T) {
	db := pgtest.Migrated(t)
	registry := prometheus.NewRegistry()
	p := newProvider()
	r := start(t, db.URL(), p, func(c *Config) {
		c.Registerer, c.Replication.StatusInterval = registry, 200*time.Millisecond
	})
	r.streams(t)
	enqueue(t, db.Pool(), "", 10)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 10})
	want := strings.Fields(`
weir_attention{exporter}
weir_checkpoint_age_seconds
weir_checkpoint_lag_bytes
weir_claim_batch_size{exporter}
weir_claims_total{exporter,source}
weir_commit_to_send_seconds{exporter}
weir_deliveries_total{exporter,outcome}
weir_delivery_duration_seconds{exporter}
weir_items{exporter,state}
weir_lane_held{exporter}
weir_lane_later{exporter}
weir_lane_paused{exporter,reason}
weir_lane_ready{exporter}
weir_lane_sweeping{exporter}
weir_lane_window{exporter}
weir_oldest_pending_age_seconds{exporter}
weir_rate_limit_wait_seconds_total{exporter}
weir_replication_lag_bytes
weir_replication_lag_seconds
weir_replication_reconnects_total
weir_settled_total{exporter,state}
weir_slot_active
weir_slot_recreations_total{reason}
weir_slot_retained_bytes
weir_slot_wal_status{status}
weir_stale_writes_total{exporter}
weir_state_count_drift
weir_streaming
weir_sweeps_total{exporter}
weir_wakes_total{source}
weir_wakes_unseen_total{exporter}`)
	pgtest.Eventually(t, patience, func() error {
		families, err := registry.Gather()
		if err != nil {
			return err
		}
		var got []string
		for _, f := range families {
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			name := f.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			got = append(got, name)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("want\n%s\ngot\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
		return nil
	})
}

// tracer counts the statements of a pool.
type tracer struct{ statements atomic.Int64 }

func (c *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	return ctx
}
func (*tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// traced is a relay whose statements are counted.
func traced(t *testing.T, url string, e exporter.Exporter, change func(*Config)) (*rig, *tracer) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range machine.SessionParameters() {
		config.ConnConfig.RuntimeParams[name] = value
	}
	count := &tracer{}
	config.ConnConfig.Tracer = count
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return start(t, url, e, func(c *Config) {
		c.Pool, c.Replication.StatusInterval = pool, time.Hour
		if change != nil {
			change(c)
		}
	}), count
}

// quietFor demands that the relay asks the database nothing for a while.
func quietFor(t *testing.T, count *tracer, d time.Duration) {
	t.Helper()
	var last int64
	var since time.Time
	pgtest.Eventually(t, patience, func() error {
		if n := count.statements.Load(); n != last || since.IsZero() {
			last, since = n, time.Now()
		}
		if quiet := time.Since(since); quiet < d {
			return fmt.Errorf("%d statements, the last %v ago", last, quiet)
		}
		return nil
	})
}

func TestIdleRelayAsksNothing(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	r, count := traced(t, db.URL(), p, nil)
	r.streams(t)
	enqueue(t, db.Pool(), "", 10)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 10})
	quietFor(t, count, 5*time.Second)
	// Nor does it while items wait for their time.
	p.say(func(*machine.Item) exporter.Outcome {
		return exporter.Outcome{Kind: exporter.Retry, Code: "later", After: time.Hour}
	})
	enqueue(t, db.Pool(), "later", 10)
	pgtest.Eventually(t, patience, func() bool { return r.Status().Lanes[0].Later == 10 })
	quietFor(t, count, 5*time.Second)
}

// While a transaction that began before hides nothing or something, nobody knows, sweeps are made again a second
// apart, not in a loop.
func TestSweepsAreNotMadeInALoop(t *testing.T) {
	db := pgtest.Migrated(t)
	running, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer running.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it is over by then
	if _, err := running.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	p := newProvider()
	r, count := traced(t, db.URL(), p, func(c *Config) { c.Replication, c.PollInterval = nil, time.Hour })
	pgtest.Eventually(t, patience, func() bool { return count.statements.Load() > 2 })
	before, begin := count.statements.Load(), time.Now()
	pgtest.Eventually(t, patience, func() bool { return time.Since(begin) > 5*time.Second })
	if n := count.statements.Load() - before; n < 4 || n > 20 {
		t.Errorf("want two statements a second, got %d in %v", n, time.Since(begin))
	}
	if l := r.Status().Lanes[0]; !l.Sweeping {
		t.Error("want the sweep owed while the transaction runs")
	}
	if err := running.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, patience, func() bool { return !r.Status().Lanes[0].Sweeping })
}

// A lane that is kept busy by wakes completes its sweeps all the same, and the other way round.
func TestSweepsAndWakesShareTheLane(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.limits.Batch, p.limits.Calls = 1, 4
	enqueue(t, db.Pool(), "backlog", 3000)
	r := start(t, db.URL(), p, func(c *Config) { c.PollInterval = time.Hour })
	pgtest.Eventually(t, patience, func() bool { return r.Status().Stream.Mode == "streaming" })
	enqueue(t, db.Pool(), "fresh", 10)
	pgtest.Eventually(t, patience, func() error {
		fresh := 0
		order := p.sentInOrder()
		for _, ref := range order {
			if strings.HasPrefix(ref, "fresh") {
				fresh++
			}
		}
		if fresh < 10 {
			return fmt.Errorf("%d of 10 fresh items among %d", fresh, len(order))
		}
		return nil
	})
	t.Logf("fresh items were through after %d of 3010", len(p.sentInOrder()))
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 3010})
	r.streams(t)
}
