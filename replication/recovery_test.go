package replication

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// lesson 10: a terminated walsender (57P01) is followed by a new connection, in process.
func TestReconnects(t *testing.T) {
	r := setUp(t).start().streaming()
	for i := range 3 {
		r.exec(`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1`, r.config.Slot)
		r.insert("stripe", fmt.Sprint("a", i), 1)
		r.counted()
		r.streaming()
	}
	s := r.stream.Status()
	if s.Reconnects < 3 || len(s.Recreations) != 0 || r.ledger.rebases() != 1 {
		t.Errorf("reconnects %d, recreations %v, rebases %d: want 3, none, 1", s.Reconnects, s.Recreations, r.ledger.rebases())
	}
	r.stop()
}

// The slot is the election: one streams, the other waits and takes over with the same ledger.
func TestStandbyTakesOver(t *testing.T) {
	leader := setUp(t).start().streaming()
	second := newRig(t, leader.url, leader.pool, leader.config.Slot)
	second.ledger = leader.ledger
	second.log.ledger = leader.ledger
	second.start()
	second.await(Standby)
	leader.insert("stripe", "a", 1)
	leader.counted()
	leader.stop()
	second.streaming()
	second.insert("stripe", "b", 1)
	second.counted()
	if n := second.ledger.rebases(); n != 1 {
		t.Errorf("counted anew %d times, want once", n)
	}
	second.wants("started", "  insert stripe pending", "commit")
	second.stop()
}

// lesson 14: a slot that something else reads is waited for.
func TestSlotInUseByAnother(t *testing.T) {
	r := setUp(t).start().streaming()
	r.stop()
	c, err := connect(t.Context(), r.config.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.hijack(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.start(t.Context(), r.config.Slot, "weir", r.ledger.Confirmed()); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.await(Standby)
	w.close()
	r.streaming().stop()
}

// lessons 12, 13: whatever has become of the slot, it is made anew, and counted anew, without a person.
// lesson 22: a slot that is past what was counted leaves a gap, which is found.
func TestSlotIsMadeAnew(t *testing.T) {
	tests := []struct {
		reason string
		harm   func(*rig)
	}{
		{ReasonMissing, func(r *rig) { r.exec(`SELECT pg_drop_replication_slot($1)`, r.config.Slot) }},
		{ReasonUncounted, func(r *rig) { r.ledger.source.SystemID = "7000000000000000000" }},
		{ReasonAhead, func(r *rig) {
			r.insert("stripe", "skipped", 1)
			r.exec(`SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())`, r.config.Slot)
		}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			r := setUp(t).start().streaming()
			r.insert("stripe", "before", 2)
			r.counted()
			r.stop()
			r.insert("stripe", "while away", 3)
			test.harm(r)
			r.start().streaming()
			r.insert("stripe", "after", 1)
			r.counted()
			if n := r.stream.Status().Recreations[test.reason]; n != 1 {
				t.Errorf("recreations %v, want one for %s", r.stream.Status().Recreations, test.reason)
			}
			if n := r.ledger.rebases(); n != 2 {
				t.Errorf("counted anew %d times, want at the beginning and once more", n)
			}
			r.stop()
		})
	}
}

// lesson 12: a slot whose WAL is gone still exists; it is wal_status that tells.
func TestSlotIsLost(t *testing.T) {
	r, _ := setUpCluster(t, map[string]string{"max_slot_wal_keep_size": "16MB", "min_wal_size": "32MB", "max_wal_size": "64MB"})
	r.start().streaming()
	r.stop()
	r.eventually(func() error {
		r.exec(`CREATE TABLE ballast AS SELECT repeat('x', 1000) FROM generate_series(1, 40000)`)
		r.exec(`DROP TABLE ballast`)
		r.exec(`SELECT pg_switch_wal()`)
		r.exec(`CHECKPOINT`)
		if status := r.slot().WALStatus; status != "lost" {
			return fmt.Errorf("wal_status is %s", status)
		}
		return nil
	})
	r.insert("stripe", "a", 2)
	r.start().streaming()
	r.counted()
	if n := r.stream.Status().Recreations[ReasonLost]; n != 1 {
		t.Errorf("recreations %v, want one for %s", r.stream.Status().Recreations, ReasonLost)
	}
	if slot := r.slot(); slot.Lost() || !slot.Active {
		t.Errorf("slot afterwards: %+v", slot)
	}
	r.stop()
}

// A fast shutdown waits until logical walsenders have everything confirmed, which a ledger in the same
// database can no longer do: weir lets go.
func TestServerRestarts(t *testing.T) {
	r, cluster := setUpCluster(t, nil)
	r.ledger.manual = true
	r.start().streaming()
	r.insert("stripe", "a", 2)
	r.counted()
	began := time.Now()
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the restart took %v: weir held the server up", took)
	}
	r.pool.Reset()
	r.eventually(func() error { return r.pool.Ping(t.Context()) })
	r.ledger.keep(false)
	r.streaming()
	r.exec(`TRUNCATE weir.deliveries`)
	r.insert("stripe", "b", 1)
	r.counted()
	if s := r.stream.Status(); len(s.Recreations) != 0 || s.Reconnects == 0 {
		t.Errorf("reconnects %d, recreations %v: want some, none", s.Reconnects, s.Recreations)
	}
	r.stop()
}

func TestServerCrashes(t *testing.T) {
	r, cluster := setUpCluster(t, nil)
	r.start().streaming()
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	r.await(Connecting)
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.pool.Reset()
	r.streaming()
	r.insert("stripe", "b", 1)
	r.counted()
	r.stop()
}

// Making a slot waits for old transactions; meanwhile nothing is promised, and it can be called off.
func TestCreatingWaitsAndCanBeCalledOff(t *testing.T) {
	r := setUp(t)
	commit := r.openTransaction("")
	r.start()
	r.await(Creating)
	r.eventually(func() error {
		if !r.slot().Exists {
			return errors.New("not begun")
		}
		return nil
	})
	if got := r.log.copy(); len(got) != 0 {
		t.Errorf("while creating the handler was told %q", got)
	}
	r.stop()
	r.eventually(func() error {
		if r.slot().Exists {
			return errors.New("the slot is still there after its making was called off")
		}
		return nil
	})
	r.start()
	r.await(Creating)
	commit()
	r.streaming().stop()
}

// What a database or a role sets for its sessions changes neither how values read nor how long one may wait.
func TestSettingsOfTheDatabase(t *testing.T) {
	r := setUp(t)
	for _, set := range []string{"datestyle = 'German'", "timezone = 'Asia/Kathmandu'", "statement_timeout = '2s'",
		"lock_timeout = '50ms'", "idle_in_transaction_session_timeout = '50ms'"} {
		r.exec(fmt.Sprintf(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET %s', current_database()); END $$`, strings.ReplaceAll(set, "'", "''")))
	}
	r.ledger.during = `SELECT pg_sleep(0.3)` // longer than the snapshot's transaction might be idle
	commit := r.openTransaction(`SET idle_in_transaction_session_timeout = 0`)
	r.start()
	r.await(Creating)
	r.exec(`SELECT pg_sleep(0.3)`) // longer than a lock might be waited for
	commit()
	r.streaming()
	r.insert("stripe", "a", 1)
	r.counted()
	s := r.stream.Status()
	r.stop()
	if s.Reconnects != 0 {
		t.Errorf("%d reconnects, want none", s.Reconnects)
	}
	if due := r.log.last.NextAttemptAt; time.Since(due).Abs() > time.Minute {
		t.Errorf("due at %v, want now", due)
	}
}

// Two that begin together make one slot: the second waits also while the first takes its counts, when the
// slot is there and nobody's.
func TestTwoBeginTogether(t *testing.T) {
	a := setUp(t)
	b := newRig(t, a.url, a.pool, a.config.Slot)
	b.ledger, b.log.ledger = a.ledger, a.ledger
	a.insert("stripe", "a", 10)
	a.start()
	b.start()
	a.eventually(func() error {
		modes := map[Mode]int{a.stream.Status().Mode: 1}
		modes[b.stream.Status().Mode]++
		if modes[Streaming] != 1 || modes[Standby] != 1 {
			return fmt.Errorf("modes %v", modes)
		}
		return nil
	})
	if n := a.ledger.rebases(); n != 1 {
		t.Errorf("counted %d times, want once", n)
	}
	a.stop()
	b.stop()
}

// When the counts can't be taken, the new slot doesn't stay behind to keep WAL.
func TestRebaseFails(t *testing.T) {
	r := setUp(t)
	r.ledger.fail = errors.New("no table")
	r.start()
	r.eventually(func() error {
		if n := r.stream.Status().Reconnects; n < 2 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	r.stop()
	if r.slot().Exists {
		t.Error("the slot is there, and nobody has counts for it")
	}
}

// A slot that retains too much is given up, and made anew after a rest.
func TestFuse(t *testing.T) {
	r := setUp(t)
	r.ledger.manual = true // so the slot never moves
	r.config.DB = r.pool
	r.config.Fuse = 4 << 20
	r.config.FuseRest = 300 * time.Millisecond
	r.start().streaming()
	r.exec(`CREATE TABLE ballast AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)`)
	r.await(Sweeping)
	if reason := r.stream.Status().Reason; reason == "" {
		t.Error("sweeping without a reason")
	}
	r.eventually(func() error {
		if r.slot().Exists {
			return errors.New("the slot is still there")
		}
		return nil
	})
	r.streaming()
	s := r.stream.Status()
	if s.Recreations[ReasonFuse] != 1 || r.ledger.rebases() != 2 {
		t.Errorf("recreations %v, rebases %d: want one for the fuse, 2", s.Recreations, r.ledger.rebases())
	}
	r.insert("stripe", "a", 1)
	r.counted()
	r.stop()
}

// Where nothing can be streamed, a slot that retains too much goes all the same.
func TestFuseWithoutAPublication(t *testing.T) {
	r := setUp(t).start().streaming()
	r.stop()
	r.exec(`DROP PUBLICATION weir`)
	r.exec(`CREATE TABLE ballast AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)`)
	r.config.DB, r.config.Fuse = r.pool, 4<<20
	r.start()
	demandPermanent(t, r.result(), "weir migrate up")
	if slot := r.slot(); slot.Exists {
		t.Errorf("the slot is still there and retains %d bytes", slot.RetainedBytes)
	}
}

// lesson 18: the publication is there, but the slot begins before it and can't see it.
func TestPublicationIsYoungerThanTheSlot(t *testing.T) {
	r := setUp(t).start().streaming()
	r.stop()
	r.exec(`DROP PUBLICATION weir`)
	r.insert("stripe", "a", 1)
	r.exec(`CREATE PUBLICATION weir FOR TABLE weir.deliveries (id, exporter, state, from_state, next_attempt_at, lease_expires_at)`)
	r.start()
	r.eventually(func() error {
		if n := r.stream.Status().Recreations[ReasonPublication]; n != 1 {
			return fmt.Errorf("recreations %v", r.stream.Status().Recreations)
		}
		return nil
	})
	r.streaming().counted()
	r.stop()
}
