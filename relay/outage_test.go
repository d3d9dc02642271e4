package relay

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// hasty is a policy whose retries come soon.
func hasty() machine.Policy {
	p := machine.DefaultPolicy()
	p.Base, p.Cap = 50*time.Millisecond, 500*time.Millisecond
	return p
}

// An outage of many rounds eats no more attempts than it takes to notice it, leaves nothing in doubt, and everything
// is billed once in the end.
// lesson 25
func TestProviderOutage(t *testing.T) {
	faults := map[string]func(s *sandbox.Sandbox, on bool){
		"down": func(s *sandbox.Sandbox, on bool) { s.Down(on) },
		"500 after taking it": func(s *sandbox.Sandbox, on bool) {
			s.ClearFaults()
			if on {
				s.AddFault(sandbox.Rule{Action: sandbox.Action{Kind: sandbox.FaultStatus, Status: 500, When: sandbox.After}}) //nolint:errcheck // its rule is right
			}
		},
		"silent": func(s *sandbox.Sandbox, on bool) {
			s.ClearFaults()
			if on {
				s.AddFault(sandbox.Rule{Action: sandbox.Action{Kind: sandbox.FaultHang}}) //nolint:errcheck // its rule is right
			}
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Migrated(t)
			s := sandbox.New(sandbox.Config{Meters: []sandbox.Meter{{EventName: "tokens"}}})
			server := httptest.NewServer(s.Handler())
			t.Cleanup(server.Close)
			t.Cleanup(s.Close)
			e, err := stripe.New(stripe.Config{Key: "sk_test_weir", URL: server.URL, Rate: -1, Timeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			policy := hasty()
			policy.Attempts = 3
			var rounds atomic.Int32
			r := start(t, db.URL(), &counting{e, &rounds}, func(c *Config) { c.Policy = policy })
			r.streams(t)
			fault(s, true)
			const n = 200
			db.Exec(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
				SELECT 't', g::text, 'test', '1', jsonb_build_object('customer', 'cus_' || g % 50, 'meter', 'tokens', 'value', '1', 'timestamp', extract(epoch FROM now())::bigint)
				  FROM generate_series(1, $1::int) g`, n)
			pgtest.Eventually(t, patience, func() error {
				if got := r.Status().Lanes[0].Paused; got != pausedUnreachable {
					return fmt.Errorf("paused for %q", got)
				}
				return nil
			})
			broke := rounds.Load()
			pgtest.Eventually(t, patience, func() error {
				if got := rounds.Load(); got < broke+2 {
					return fmt.Errorf("%d probes", got-broke)
				}
				return nil
			})
			// Items in flight carry their attempt until they are settled.
			var attempts, atRest int
			err = db.Pool().QueryRow(t.Context(), `
				SELECT coalesce(sum(attempts) FILTER (WHERE state <> 'leased'), 0), count(*) FILTER (WHERE NOT open) FROM weir.deliveries`).Scan(&attempts, &atRest)
			if err != nil || attempts > breakAfter || atRest != 0 {
				t.Errorf("want at most %d attempts counted and nothing given up, got %d, %d, %v", breakAfter, attempts, atRest, err)
			}
			if err := r.Health(); err != nil {
				t.Errorf("a paused lane: want it healthy, got %v", err)
			}
			fault(s, false)
			eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: n})
			if got := s.Totals(); got.Billed != n || got.BilledAgain != 0 {
				t.Errorf("want %d billed once, got %+v", n, got)
			}
		})
	}
}

// counting counts the calls of an exporter with keys.
type counting struct {
	exporter.Keyed
	calls *atomic.Int32
}

func (c *counting) Deliver(ctx context.Context, items []machine.Item) []exporter.Outcome {
	c.calls.Add(1)
	return c.Keyed.Deliver(ctx, items)
}

// lesson 25
func TestRateLimitStorm(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.limits.Batch = 1
	var calls atomic.Int32
	p.say(func(*machine.Item) exporter.Outcome {
		if calls.Add(1) <= 40 {
			return exporter.Outcome{Kind: exporter.Retry, Signal: exporter.RateLimited, Cost: machine.Waived, Code: "429", After: 200 * time.Millisecond}
		}
		return exporter.Outcome{Kind: exporter.Accepted}
	})
	policy := hasty()
	policy.Attempts = 2
	r := start(t, db.URL(), p, func(c *Config) { c.Policy = policy })
	r.streams(t)
	enqueue(t, db.Pool(), "", 30)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 30})
	var attempts int
	if err := db.Pool().QueryRow(t.Context(), `SELECT max(attempts) FROM weir.deliveries`).Scan(&attempts); err != nil || attempts != 1 {
		t.Errorf("want one attempt counted, got %d, %v", attempts, err)
	}
}

func TestRefusedKeyPausesTheLane(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.limits.Batch = 1
	var valid atomic.Bool
	p.say(func(*machine.Item) exporter.Outcome {
		if !valid.Load() {
			return exporter.Outcome{Kind: exporter.Retry, Signal: exporter.Unauthorized, Cost: machine.Unsent, Code: "401"}
		}
		return exporter.Outcome{Kind: exporter.Accepted}
	})
	r := start(t, db.URL(), p, func(c *Config) { c.Policy = hasty() })
	r.streams(t)
	enqueue(t, db.Pool(), "", 50)
	pgtest.Eventually(t, patience, func() error {
		if got := r.Status().Lanes[0].Paused; got != pausedUnauthorized {
			return fmt.Errorf("paused for %q", got)
		}
		return nil
	})
	if times, items := p.most(); items > p.limits.Calls+1 || times > 2 {
		t.Errorf("want few calls before the pause, got %d items, up to %d times", items, times)
	}
	valid.Store(true)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 50})
	if got := r.Status().Lanes[0].Paused; got != "" {
		t.Errorf("want it open again, got %q", got)
	}
}

// A call that outlasts its lease: the item is sent again, and the late outcome is refused and counted.
//
// lesson 23
func TestLateOutcomeIsStale(t *testing.T) {
	db := pgtest.Migrated(t)
	release := make(chan struct{})
	var calls atomic.Int32
	p := newProvider()
	p.limits.Timeout = 500 * time.Millisecond
	p.during = func(context.Context, []machine.Item) {
		if calls.Add(1) == 1 {
			<-release // whatever its deadline says
		}
	}
	var again atomic.Bool
	p.say(func(it *machine.Item) exporter.Outcome {
		if it.Attempts == 1 {
			return exporter.Outcome{Kind: exporter.Rejected, Code: "late"}
		}
		again.Store(true)
		return exporter.Outcome{Kind: exporter.Accepted, Ref: "second"}
	})
	policy := hasty()
	policy.Lease = time.Second
	r := start(t, db.URL(), p, func(c *Config) { c.Policy = policy })
	r.streams(t)
	enqueue(t, db.Pool(), "", 1)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 1})
	close(release)
	pgtest.Eventually(t, patience, func() error {
		if got := testutil.ToFloat64(r.lanes[0].metrics.stale); got != 1 {
			return fmt.Errorf("%v stale", got)
		}
		return nil
	})
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 1})
	if !again.Load() {
		t.Error("nothing was sent again")
	}
}

// What was claimed after its last attempt, or past its horizon, is doubted and not sent.
// lesson 25
func TestExhaustedItemsAreDoubted(t *testing.T) {
	db := pgtest.Migrated(t)
	policy := hasty()
	policy.Lease, policy.Attempts = 2*time.Second, 2
	enqueue(t, db.Pool(), "", 4)
	db.Exec(t, `UPDATE weir.deliveries SET from_state = state, state = 'leased', attempts = 2, lease_token = 2, lease_owner = 'crashed',
		first_attempt_at = clock_timestamp() - interval '2 seconds', lease_expires_at = clock_timestamp() - interval '1 second' WHERE id IN (1, 2)`)
	db.Exec(t, `UPDATE weir.deliveries SET from_state = state, state = 'leased', attempts = 1, lease_token = 1, lease_owner = 'crashed',
		first_attempt_at = clock_timestamp() - interval '24 hours', lease_expires_at = clock_timestamp() - interval '1 second' WHERE id = 3`)
	p := newProvider()
	p.limits.Timeout = time.Second
	start(t, db.URL(), p, func(c *Config) { c.Policy = policy })
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 1, machine.Uncertain: 3})
	if got := fmt.Sprint(p.sentInOrder()); got != "[4]" {
		t.Errorf("want only item 4 sent, got %v", got)
	}
}

// The database goes away while outcomes wait to be written, and comes back.
func TestDatabaseOutage(t *testing.T) {
	server, pool := private(t, nil)
	url := server.URL("postgres")
	p := newProvider()
	inCall, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	p.during = func(context.Context, []machine.Item) {
		if once.CompareAndSwap(false, true) {
			close(inCall)
			<-release
		}
	}
	r := start(t, url, p, nil)
	r.streams(t)
	enqueue(t, pool, "", 100)
	<-inCall
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	close(release)
	pgtest.Eventually(t, patience, func() error {
		if l := r.Status().Lanes[0]; l.Unsettled == 0 {
			return fmt.Errorf("no outcome waits: %+v", l)
		}
		return nil
	})
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool.Reset()
	pgtest.Eventually(t, patience, func() error {
		_, err := pool.Exec(t.Context(), insertSQL, "more", 100)
		return err
	})
	eventually(t, pool, map[machine.State]int{machine.Accepted: 200})
	if times, items := p.most(); times != 1 || items != 200 {
		t.Errorf("want 200 items sent once, got %d, one of them %d times", items, times)
	}
	r.streams(t)
}

// Most items have one key, which the provider takes one at a time: the others don't wait for them, and they
// themselves are not claimed over and over.
func TestBusyKey(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.limits.Batch, p.limits.Calls = 1, 4
	tick := make(chan struct{})
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() { // the provider takes about two milliseconds
		beat := time.NewTicker(2 * time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-beat.C:
			case <-done:
				return
			}
			select {
			case tick <- struct{}{}:
			case <-done:
				return
			}
		}
	}()
	p.during = func(_ context.Context, items []machine.Item) {
		if items[0].TenantKey == "whale" {
			<-tick
		}
	}
	r := start(t, db.URL(), keyedProvider{p}, nil)
	r.streams(t)
	db.Exec(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
		SELECT CASE WHEN g % 10 = 0 THEN 'minnow' || g ELSE 'whale' END, g::text, 'test', '1', '{}' FROM generate_series(1, 1000) g`)
	pgtest.Eventually(t, patience, func() error {
		var left, ahead int
		err := db.Pool().QueryRow(t.Context(), `
			SELECT count(*) FILTER (WHERE open AND tenant_key <> 'whale'), count(*) FILTER (WHERE open AND tenant_key = 'whale')
			  FROM weir.deliveries JOIN weir.outbox USING (id)`).Scan(&left, &ahead)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d others wait, with %d of the busy key", left, ahead)
		}
		if err == nil && ahead < 100 {
			t.Errorf("the others waited until %d of the busy key were left", ahead)
		}
		return err
	})
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 1000})
	var claims int
	if err := db.Pool().QueryRow(t.Context(), `SELECT sum(lease_token) FROM weir.deliveries`).Scan(&claims); err != nil || claims > 8000 {
		t.Errorf("want few claims an item, got %d for 1000, %v", claims, err)
	}
	t.Logf("%d claims for 1000 items", claims)
	if times, _ := p.most(); times != 1 {
		t.Errorf("an item was sent %d times", times)
	}
}
