package relay

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// blocking makes p's calls wait for release, and tells how many do.
func blocking(p *provider) (release chan struct{}, blocked *atomic.Int32) {
	release, blocked = make(chan struct{}), new(atomic.Int32)
	p.during = func(ctx context.Context, _ []machine.Item) {
		blocked.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
		}
	}
	return release, blocked
}

// keyedProvider is a provider that takes one call in flight per tenant.
type keyedProvider struct{ *provider }

func (keyedProvider) Key(it *machine.Item) string { return it.TenantKey }

func TestStopFinishesWhatIsInFlightAndHandsBackTheRest(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.limits.Batch = 1
	release, blocked := blocking(p)
	var ready, shut atomic.Int32
	r := start(t, db.URL(), keyedProvider{p}, func(c *Config) {
		c.OnReady = func() { ready.Add(1) }
		c.OnShutdown = func() { shut.Add(1) }
	})
	r.streams(t)
	enqueue(t, db.Pool(), "", 20) // of one tenant: one in flight, four in its queue
	pgtest.Eventually(t, patience, func() error {
		if l := r.Status().Lanes[0]; blocked.Load() != 1 || l.Held < 1+queueBound {
			return fmt.Errorf("%d in flight, %+v", blocked.Load(), l)
		}
		return nil
	})
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	eventually(t, db.Pool(), map[machine.State]int{machine.Leased: 1, machine.Pending: 19})
	if shut.Load() != 0 {
		t.Error("OnShutdown before the last item is settled")
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 1, machine.Pending: 19})
	var attempts, begun int
	err := db.Pool().QueryRow(t.Context(), `SELECT sum(attempts), count(first_attempt_at) FROM weir.deliveries WHERE state = 'pending'`).Scan(&attempts, &begun)
	if err != nil || attempts != 0 || begun != 0 {
		t.Errorf("want every claim that was not sent undone, got %d attempts, %d with a first attempt, %v", attempts, begun, err)
	}
	if ready.Load() != 1 || shut.Load() != 1 {
		t.Errorf("want OnReady and OnShutdown once, got %d, %d", ready.Load(), shut.Load())
	}
	// The last checkpoint is durable, and the server has been told.
	view, _ := r.book.View()
	if view.At != view.Confirmed {
		t.Errorf("want a checkpoint at %v, got %v", view.At, view.Confirmed)
	}
	var behind bool
	if err := db.Pool().QueryRow(t.Context(), `SELECT confirmed_flush_lsn < $1 FROM pg_replication_slots WHERE database = $2`, view.Confirmed, db.Name()).Scan(&behind); err != nil || behind {
		t.Errorf("want %v confirmed to the server, got less: %v, %v", view.Confirmed, behind, err)
	}
}

// Calls that outlast the grace are cut off; their outcomes are written all the same.
func TestStopAfterTheGrace(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	_, blocked := blocking(p)
	p.say(func(*machine.Item) exporter.Outcome {
		return exporter.Outcome{Kind: exporter.Retry, Signal: exporter.Unreachable, Code: "cut_off"}
	})
	r := start(t, db.URL(), p, func(c *Config) { c.Grace = 100 * time.Millisecond })
	r.streams(t)
	enqueue(t, db.Pool(), "", 1)
	pgtest.Eventually(t, patience, func() bool { return blocked.Load() == 1 })
	begin := time.Now()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 100*time.Millisecond || took > p.limits.Timeout/2 {
		t.Errorf("want it to take the grace and little more, took %v", took)
	}
	eventually(t, db.Pool(), map[machine.State]int{machine.Pending: 1})
}

// An exporter that ignores its context can't hold Run.
func TestStopLeavesBehindWhatNeverReturns(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	release := make(chan struct{})
	defer close(release)
	var blocked atomic.Int32
	p.during = func(context.Context, []machine.Item) { blocked.Add(1); <-release }
	r := start(t, db.URL(), p, func(c *Config) { c.Grace = 100 * time.Millisecond })
	r.streams(t)
	enqueue(t, db.Pool(), "", 1)
	pgtest.Eventually(t, patience, func() bool { return blocked.Load() == 1 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, db.Pool(), map[machine.State]int{machine.Leased: 1})
}

// Stopped at any moment, a relay leaves nothing leased and nothing running.
func TestStopAtAnyMoment(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.limits.Batch = 7
	for i := range 8 {
		r := start(t, db.URL(), p, nil)
		if i%4 != 0 {
			r.streams(t)
		}
		enqueue(t, db.Pool(), fmt.Sprint(i, ":"), 2000)
		want := 1 + i*100
		pgtest.Eventually(t, patience, func() bool { _, items := p.most(); return items >= want })
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		got, err := states(t.Context(), db.Pool())
		if err != nil || got[machine.Leased] != 0 {
			t.Fatalf("want nothing left leased, got %v, %v", got, err)
		}
	}
	if times, _ := p.most(); times != 1 {
		t.Errorf("an item was sent %d times", times)
	}
	pgtest.Eventually(t, patience, func() error {
		buf := make([]byte, 1<<20)
		stacks := string(buf[:runtime.Stack(buf, true)])
		for _, g := range strings.Split(stacks, "\n\n") {
			if strings.Contains(g, "weir/relay.(*") && !strings.Contains(g, "testing.tRunner") ||
				strings.Contains(g, "weir/replication.(*") || strings.Contains(g, "weir/checkpoint.(*") {
				return fmt.Errorf("still running:\n%s", g)
			}
		}
		return nil
	})
}
