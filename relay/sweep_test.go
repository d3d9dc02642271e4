package relay

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// overDatabase is a lane that the test drives by hand.
func overDatabase(t *testing.T, db *pgtest.DB) *Lane {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return newLane(LaneConfig{Name: "stripe", Exporter: newProvider()}, "test", machine.NewStore(db.Pool(), hasty()), quiet(), m.lane("stripe"))
}

func claimN(t *testing.T, l *Lane, n, want int) []machine.Item {
	t.Helper()
	c, err := l.claim(t.Context(), n)
	if err != nil || len(c.items) != want {
		t.Fatalf("want %d claimed, got %d, %v", want, len(c.items), err)
	}
	return c.items
}

// What is asked for while a pass is under way may lie where the pass has been: it makes another.
func TestSweepAskedForDuringASweep(t *testing.T) {
	db := pgtest.Migrated(t)
	l := overDatabase(t, db)
	enqueue(t, db.Pool(), "", 25)
	l.agenda.sweep()
	claimN(t, l, 10, 10)
	l.agenda.sweep()
	claimN(t, l, 10, 10)
	claimN(t, l, 10, 5)
	if _, _, owed := l.agenda.depth(); !owed {
		t.Fatal("a pass has answered a request that came after it had begun")
	}
	claimN(t, l, 10, 0)
	if _, later, owed := l.agenda.depth(); owed || later != 25 {
		t.Errorf("want it answered, and a timer for every lease, got %v, %d", owed, later)
	}
}

// A query that is out of date doesn't put off what the log has told since.
func TestLookNeverPutsOff(t *testing.T) {
	db := pgtest.Migrated(t)
	l := overDatabase(t, db)
	enqueue(t, db.Pool(), "", 1)
	l.agenda.now(wake{id: 1})
	claimN(t, l, 1, 1)
	soon := time.Now().Add(5 * time.Second)
	l.agenda.now(wake{id: 1}) // a second wake, whose claim finds it leased
	l.agenda.mu.Lock()
	l.agenda.set(wake{id: 1}, soon) // the log tells meanwhile that it comes back
	l.agenda.mu.Unlock()
	claimN(t, l, 1, 0)
	if next := l.agenda.next(time.Now()); !next.Equal(soon) {
		t.Errorf("want the timer of the log, got one %v later", next.Sub(soon))
	}
}

// A wake whose row is locked for a moment is tried again, and loses nothing of what it knew.
func TestLockedRowIsLookedAtAgain(t *testing.T) {
	db := pgtest.Migrated(t)
	l := overDatabase(t, db)
	enqueue(t, db.Pool(), "", 1)
	lock, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(t.Context()) //nolint:errcheck // it is over by then
	if _, err := lock.Exec(t.Context(), `SELECT FROM weir.deliveries FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	commit := time.Now()
	l.agenda.now(wake{id: 1, commit: commit})
	claimN(t, l, 1, 0)
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, patience, func() bool {
		c, err := l.claim(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return len(c.items) == 1 && c.commit[1].Equal(commit)
	})
}

// A claim that fails loses no wake: the table is swept.
func TestFailedClaimLosesNothing(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	r := start(t, db.URL(), p, func(c *Config) { c.PollInterval = time.Hour })
	r.streams(t)
	// Claims fail from now on.
	db.Exec(t, `ALTER TABLE weir.outbox RENAME COLUMN traceparent TO hidden`)
	db.Exec(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
		SELECT 't', g::text, 'test', '1', '{}' FROM generate_series(1, 100) g`)
	pgtest.Eventually(t, patience, func() bool { return r.Status().Lanes[0].Sweeping })
	db.Exec(t, `ALTER TABLE weir.outbox RENAME COLUMN hidden TO traceparent`)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 100})
}

// A woken row that was deleted before anybody saw it is looked for until a sweep shows that it is gone.
func TestDeletedRowIsForgotten(t *testing.T) {
	db := pgtest.Migrated(t)
	l := overDatabase(t, db)
	l.agenda.now(wake{id: 999})
	claimN(t, l, 10, 0)
	if _, later, _ := l.agenda.depth(); later != 1 {
		t.Fatalf("want it looked for again, got %d timers", later)
	}
	l.agenda.sweep()
	pgtest.Eventually(t, patience, func() bool {
		claimN(t, l, 10, 0)
		ready, later, owed := l.agenda.depth()
		return ready == 0 && later == 0 && !owed
	})
}
