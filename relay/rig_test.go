package relay

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/internal/postgres"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/migrations"
	"github.com/weir-relay/weir/replication"
)

// patience bounds the wait for what should come at once; a failing test waits that long.
const patience = 30 * time.Second

// provider is a scripted exporter that remembers what it was sent.
type provider struct {
	limits exporter.Limits

	mu     sync.Mutex
	answer func(it *machine.Item) exporter.Outcome // nil: accepted
	sent   map[string]int                          // by subject_ref
	order  []string
	during func(ctx context.Context, items []machine.Item) // runs before the answer, without the lock
}

func newProvider() *provider {
	return &provider{limits: exporter.Limits{Calls: 8, Batch: 100, Timeout: 10 * time.Second}, sent: map[string]int{}}
}

func (p *provider) Limits() exporter.Limits { return p.limits }

func (p *provider) Deliver(ctx context.Context, items []machine.Item) []exporter.Outcome {
	p.mu.Lock()
	answer, during := p.answer, p.during
	for i := range items {
		p.sent[items[i].SubjectRef]++
		p.order = append(p.order, items[i].SubjectRef)
	}
	p.mu.Unlock()
	if during != nil {
		during(ctx, items)
	}
	out := all(exporter.Accepted, items)
	if answer != nil {
		for i := range out {
			out[i] = answer(&items[i])
		}
	}
	return out
}

// say changes the answer.
func (p *provider) say(answer func(it *machine.Item) exporter.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// most is how often the item that was sent most was sent, and how many items were sent at all.
func (p *provider) most() (times, items int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.sent {
		times = max(times, n)
	}
	return times, len(p.sent)
}

func (p *provider) sentInOrder() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.order...)
}

// rig is a relay over a database.
type rig struct {
	*Relay
	url  string
	pool *pgxpool.Pool // the relay's
	stop func() error  // ends Run and answers its error
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// start runs a relay with one lane, stripe.
func start(t *testing.T, url string, e exporter.Exporter, change func(*Config)) *rig {
	t.Helper()
	r := build(t, url, e, change)
	r.run(t)
	return r
}

// build makes a relay that doesn't run yet.
func build(t *testing.T, url string, e exporter.Exporter, change func(*Config)) *rig {
	t.Helper()
	c := Config{
		Replication: &replication.Config{URL: url, Slot: "weir_" + slotName(t), BackoffMin: 10 * time.Millisecond, BackoffMax: 200 * time.Millisecond},
		Lanes:       []LaneConfig{{Name: "stripe", Exporter: e}},
		Grace:       5 * time.Second,
		Logger:      quiet(),
		// What these hide must show: nothing here may be found by the slow sweep.
		SweepInterval: time.Hour,
		PollInterval:  50 * time.Millisecond,
	}
	if change != nil {
		change(&c)
	}
	pool, err := Open(t.Context(), url, len(c.Lanes), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if c.Pool == nil {
		c.Pool = pool
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{Relay: r, url: url, pool: pool}
}

func (r *rig) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(2 * patience):
			return fmt.Errorf("Run did not return")
		}
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// streams waits until the relay streams and has caught up with what was there before.
func (r *rig) streams(t *testing.T) {
	t.Helper()
	pgtest.Eventually(t, patience, func() error {
		s := r.Status()
		if s.Stream.Mode != replication.Streaming {
			return fmt.Errorf("the stream is %s: %s", s.Stream.Mode, s.Stream.Reason)
		}
		for _, l := range s.Lanes {
			if l.Sweeping || l.Ready > 0 {
				return fmt.Errorf("lane %+v", l)
			}
		}
		return nil
	})
}

func slotName(t *testing.T) string {
	name := []rune{}
	for _, c := range t.Name() {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			name = append(name, c)
		}
	}
	return string(name[:min(len(name), 50)])
}

// enqueue commits n items in one transaction, their references prefix and a number.
func enqueue(t *testing.T, pool *pgxpool.Pool, prefix string, n int) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), insertSQL, prefix, n); err != nil {
		t.Fatal(err)
	}
}

const insertSQL = `
INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
SELECT 't', $1::text || g, 'test', '1', '{}' FROM generate_series(1, $2::int) g`

// private makes a server that the test may break, with weir's schema in its database postgres.
func private(t *testing.T, settings map[string]string) (*postgres.Cluster, *pgxpool.Pool) {
	t.Helper()
	c := pgtest.Cluster(t, postgres.Options{Settings: settings})
	url := c.URL("postgres")
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return c, pool
}

// states counts the items in each state.
func states(ctx context.Context, pool *pgxpool.Pool) (map[machine.State]int, error) {
	rows, err := pool.Query(ctx, `SELECT state, count(*) FROM weir.deliveries GROUP BY state`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[machine.State]int{}
	for rows.Next() {
		var s machine.State
		var n int
		if err := rows.Scan(&s, &n); err != nil {
			return nil, err
		}
		out[s] = n
	}
	return out, rows.Err()
}

// eventually waits until exactly these items are in these states, and none in others.
func eventually(t *testing.T, pool *pgxpool.Pool, want map[machine.State]int) {
	t.Helper()
	pgtest.Eventually(t, patience, func() error {
		got, err := states(t.Context(), pool)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("want %v, got %v", want, got)
		}
		return err
	})
}
