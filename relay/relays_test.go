package relay

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

func TestTwoRelays(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider() // of both
	a := start(t, db.URL(), p, func(c *Config) { c.Owner = "a" })
	a.streams(t)
	b := start(t, db.URL(), p, func(c *Config) { c.Owner = "b" })
	pgtest.Eventually(t, patience, func() error {
		if s := b.Status().Stream; s.Mode != replication.Standby {
			return fmt.Errorf("b is %s: %s", s.Mode, s.Reason)
		}
		return nil
	})
	enqueue(t, db.Pool(), "x", 5000)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 5000})
	if times, items := p.most(); times != 1 || items != 5000 {
		t.Errorf("want 5000 items sent once, got %d, one of them %d times", items, times)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	// No stream now: what is enqueued is found by polling, and soon by the stream again.
	enqueue(t, db.Pool(), "y", 100)
	b.streams(t)
	enqueue(t, db.Pool(), "z", 100)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 5200})
	if times, _ := p.most(); times != 1 {
		t.Errorf("an item was sent %d times", times)
	}
	pgtest.Eventually(t, patience, func() error {
		if n := b.Status().Checkpoint.Counts.Get("stripe", machine.Accepted); n != 5200 {
			return fmt.Errorf("b counted %d", n)
		}
		return nil
	})
}

// The connections of a relay that leads are cut: it comes back, or the other takes over, and all is delivered.
func TestStreamIsCut(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	a := start(t, db.URL(), p, nil)
	a.streams(t)
	start(t, db.URL(), p, nil)
	for i := range 5 {
		db.Exec(t, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = $1 AND active`, db.Name())
		enqueue(t, db.Pool(), fmt.Sprint(i, ":"), 100)
	}
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 500})
	if times, _ := p.most(); times != 1 {
		t.Errorf("an item was sent %d times", times)
	}
}

func TestPollsWithoutAStream(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	r := start(t, db.URL(), p, func(c *Config) { c.Replication = nil })
	enqueue(t, db.Pool(), "", 3000)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 3000})
	if _, err := r.Audit(t.Context()); err == nil {
		t.Error("want an error of an audit without a stream")
	}
}

func TestDeliversWhereTheStreamIsRefused(t *testing.T) {
	server, pool := private(t, map[string]string{"wal_level": "replica"})
	p := newProvider()
	r := start(t, server.URL("postgres"), p, nil)
	enqueue(t, pool, "", 300)
	eventually(t, pool, map[machine.State]int{machine.Accepted: 300})
	pgtest.Eventually(t, patience, func() error {
		if s := r.Status().Stream; s.Mode != replication.Sweeping || s.Reason == "" {
			return fmt.Errorf("want the reason why it sweeps, got %s: %q", s.Mode, s.Reason)
		}
		return nil
	})
	if err := r.Health(); err != nil {
		t.Errorf("want it healthy, got %v", err)
	}
}

func TestRefusedCredentialsEndTheStart(t *testing.T) {
	db := pgtest.Migrated(t)
	u, err := url.Parse(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/no_such_database"
	t.Run("stream", func(t *testing.T) {
		r := build(t, db.URL(), newProvider(), func(c *Config) { c.Replication.URL = u.String() })
		err := run(t, r)
		var permanent *replication.PermanentError
		if !errors.As(err, &permanent) || permanent.Hint == "" {
			t.Errorf("want a permanent error with a hint, got %v", err)
		}
	})
	t.Run("pool", func(t *testing.T) {
		pool, err := pgxpool.New(t.Context(), u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		r := build(t, db.URL(), newProvider(), func(c *Config) { c.Pool, c.Replication = pool, nil })
		if err := run(t, r); err == nil || !strings.Contains(err.Error(), "correct its URL") {
			t.Errorf("want an error that says what to do, got %v", err)
		}
	})
}

// run answers what Run does when nobody stops it.
func run(t *testing.T, r *rig) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begin := time.Now()
	err := r.Run(ctx)
	if took := time.Since(begin); took > patience/2 {
		t.Errorf("want it to fail fast, took %v", took)
	}
	return err
}

// Credentials that are withdrawn while a relay runs leave it running, without the doorbell.
func TestCredentialsWithdrawn(t *testing.T) {
	db := pgtest.Migrated(t)
	role := db.Name() + "_r"
	db.Exec(t, `CREATE ROLE `+role+` LOGIN SUPERUSER PASSWORD 'secret'`)
	u, err := url.Parse(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	r := start(t, db.URL(), newProvider(), func(c *Config) { c.Replication.URL = u.String() })
	r.streams(t)
	db.Exec(t, `ALTER ROLE `+role+` NOLOGIN`)
	t.Cleanup(func() {
		if _, err := db.Pool().Exec(context.WithoutCancel(t.Context()), `DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	db.Exec(t, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = $1 AND active`, db.Name())
	pgtest.Eventually(t, patience, func() error {
		if s := r.Status().Stream; s.Mode != replication.Sweeping {
			return fmt.Errorf("the stream is %s: %s", s.Mode, s.Reason)
		}
		return nil
	})
	enqueue(t, db.Pool(), "", 10)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 10})
}

// Lanes share nothing but the relay: one that is stuck doesn't hold the other.
func TestTwoLanes(t *testing.T) {
	db := pgtest.Migrated(t)
	stuck, works := newProvider(), newProvider()
	release, _ := blocking(stuck)
	r := start(t, db.URL(), works, func(c *Config) {
		c.Lanes = append(c.Lanes, LaneConfig{Name: "webhook", Exporter: stuck})
	})
	r.streams(t)
	db.Exec(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload, exporter)
		SELECT 't', g::text, 'test', '1', '{}', (ARRAY['stripe', 'webhook', 'nobodys'])[1 + g % 3] FROM generate_series(1, 300) g`)
	pgtest.Eventually(t, 9*time.Second, func() error { // the stuck provider's calls end after 10
		var done, held int
		err := db.Pool().QueryRow(t.Context(), `
SELECT count(*) FILTER (WHERE exporter = 'stripe'), count(*) FILTER (WHERE exporter <> 'stripe')
  FROM weir.deliveries WHERE state = 'accepted'`).Scan(&done, &held)
		if err == nil && (done != 100 || held != 0) {
			err = fmt.Errorf("want 100 accepted in the lane that works and 0 in others, got %d and %d", done, held)
		}
		return err
	})
	close(release)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 200, machine.Pending: 100})
}

func TestConfigIsChecked(t *testing.T) {
	db := pgtest.Migrated(t)
	limits := func(change func(*exporter.Limits)) func(*Config) {
		return func(c *Config) {
			p := newProvider()
			change(&p.limits)
			c.Lanes[0].Exporter = p
		}
	}
	for name, change := range map[string]func(*Config){
		"no pool":            func(c *Config) { c.Pool = nil },
		"no lane":            func(c *Config) { c.Lanes = nil },
		"lane without name":  func(c *Config) { c.Lanes[0].Name = "" },
		"no exporter":        func(c *Config) { c.Lanes[0].Exporter = nil },
		"two of one name":    func(c *Config) { c.Lanes = append(c.Lanes, c.Lanes[0]) },
		"negative grace":     func(c *Config) { c.Grace = -1 },
		"negative poll":      func(c *Config) { c.PollInterval = -1 },
		"half a policy":      func(c *Config) { c.Policy.Lease = time.Minute },
		"unknown order":      func(c *Config) { c.Lanes[0].Order = "per_moon" },
		"no calls":           limits(func(l *exporter.Limits) { l.Calls = 0 }),
		"no batch":           limits(func(l *exporter.Limits) { l.Batch = 0 }),
		"no timeout":         limits(func(l *exporter.Limits) { l.Timeout = 0 }),
		"rate below zero":    limits(func(l *exporter.Limits) { l.Rate = -1 }),
		"timeout over lease": limits(func(l *exporter.Limits) { l.Timeout = machine.DefaultPolicy().Lease }),
	} {
		c := Config{Pool: db.Pool(), Lanes: []LaneConfig{{Name: "stripe", Exporter: newProvider()}}}
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}
