package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/null"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

func TestDelivers(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	r := start(t, db.URL(), p, nil)
	r.streams(t)
	for i := range 20 {
		enqueue(t, db.Pool(), fmt.Sprint(i, ":"), 1+i*10)
	}
	total := 20 + 10*190
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: total})
	if times, items := p.most(); times != 1 || items != total {
		t.Errorf("want each of %d items sent once, got %d items, one of them %d times", total, items, times)
	}
	pgtest.Eventually(t, patience, func() error {
		s := r.Status()
		if n := s.Checkpoint.Counts.Get("stripe", machine.Accepted); n != int64(total) {
			return fmt.Errorf("counted %d accepted", n)
		}
		if l := s.Lanes[0]; l.Held != 0 || l.Unsettled != 0 || l.Ready != 0 || l.Later != 0 || l.Sweeping {
			return fmt.Errorf("not idle: %+v", l)
		}
		return nil
	})
}

// lesson 24
func TestLateCommitWithALowID(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	r := start(t, db.URL(), p, nil)
	r.streams(t)
	late, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Rollback(t.Context()) //nolint:errcheck // it is committed by then
	if _, err := late.Exec(t.Context(), insertSQL, "late", 3); err != nil {
		t.Fatal(err)
	}
	enqueue(t, db.Pool(), "early", 3)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 3})
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 6})
}

// lesson 8
func TestRollbacksAndSavepoints(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	r := start(t, db.URL(), p, nil)
	r.streams(t)
	tx := func(commit bool, steps ...string) {
		t.Helper()
		tx, err := db.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if s[0] == '+' {
				_, err = tx.Exec(t.Context(), insertSQL, s[1:], 2)
			} else {
				_, err = tx.Exec(t.Context(), s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tx(false, "+gone")
	tx(true, "+kept", "SAVEPOINT a", "+undone", "ROLLBACK TO a", "+kept2", "SAVEPOINT b", "+kept3", "RELEASE b")
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 6})
	if times, items := p.most(); times != 1 || items != 6 {
		t.Errorf("want 6 items sent once, got %d, %d times", items, times)
	}
}

// lesson 16: whatever the size of a transaction, the lane holds what its bounds say.
func TestGreatTransaction(t *testing.T) {
	const n = 200_000
	db := pgtest.Migrated(t)
	r := start(t, db.URL(), null.Exporter{}, nil)
	r.streams(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		enqueue(t, db.Pool(), "", n)
	}()
	most := 0
	pgtest.Eventually(t, 5*patience, func() error {
		l := r.Status().Lanes[0]
		most = max(most, l.Ready, l.Later, l.Unsettled)
		if c := r.Status().Checkpoint.Counts; c.Get("stripe", machine.Accepted) != n {
			return fmt.Errorf("%v, lane %+v", c.Nested(), l)
		}
		return nil
	})
	<-done
	if most > agendaBound {
		t.Errorf("want at most %d ids in memory, got %d", agendaBound, most)
	}
}

// A retry comes back at its time by the doorbell alone: the relay doesn't poll, and its slow sweep is an hour away.
func TestRetriesComeBackByTheirTimers(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.say(func(it *machine.Item) exporter.Outcome {
		if it.Attempts < 4 {
			return exporter.Outcome{Kind: exporter.Retry, Code: "again", After: 100 * time.Millisecond}
		}
		return exporter.Outcome{Kind: exporter.Accepted}
	})
	r := start(t, db.URL(), p, func(c *Config) { c.PollInterval = time.Hour })
	r.streams(t)
	begin := time.Now()
	enqueue(t, db.Pool(), "", 50)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 50})
	if took := time.Since(begin); took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("want three delays of 100ms and little more, took %v", took)
	}
	if times, _ := p.most(); times != 4 {
		t.Errorf("want 4 attempts, got %d", times)
	}
}

// A relay that died has left leases behind; another one takes the items when these have expired, by timer.
// lesson 23
func TestAbandonedLeases(t *testing.T) {
	db := pgtest.Migrated(t)
	policy := machine.DefaultPolicy()
	policy.Lease = 2 * time.Second
	dead := machine.NewStore(db.Pool(), policy)
	p := newProvider()
	p.limits.Timeout = time.Second
	claim := func(want int) {
		t.Helper()
		got, err := dead.Sweep(t.Context(), machine.Claimer{Exporter: "stripe", Owner: "dead"}, 0, 100)
		if err != nil || len(got) != want {
			t.Fatalf("want %d claimed, got %d, %v", want, len(got), err)
		}
	}
	enqueue(t, db.Pool(), "before", 5) // leased when the relay comes: no change in the log says so
	claim(5)
	r := start(t, db.URL(), p, func(c *Config) { c.Policy, c.PollInterval = policy, time.Hour })
	r.streams(t)
	if _, items := p.most(); items != 0 {
		t.Errorf("%d items were sent under somebody else's lease", items)
	}
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 5})

	// And one that is leased while it streams.
	tx, err := db.Pool().BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it is committed by then
	if _, err := tx.Exec(t.Context(), insertSQL, "during", 5); err != nil {
		t.Fatal(err)
	}
	got, err := machine.NewStore(tx, policy).Sweep(t.Context(), machine.Claimer{Exporter: "stripe", Owner: "dead"}, 0, 100)
	if err != nil || len(got) != 5 {
		t.Fatalf("want 5 claimed, got %d, %v", len(got), err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 10})
	if times, items := p.most(); times != 1 || items != 10 {
		t.Errorf("want 10 items sent once, got %d, %d times", items, times)
	}
}
