package replication

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestChangesArriveInTheirOrder(t *testing.T) {
	r := setUp(t).start().streaming()
	r.insert("stripe", "a", 1)
	r.exec(claimSQL)
	r.exec(`UPDATE weir.deliveries SET state = 'accepted', from_state = state, accepted_at = now(), lease_owner = NULL, lease_expires_at = NULL`)
	r.exec(`WITH gone AS (DELETE FROM weir.deliveries RETURNING exporter, state),
	             said AS (SELECT pg_logical_emit_message(true, 'weir.removed', '{"stripe": {"accepted": 1}}'))
	        SELECT count(*) FROM gone, said`)
	r.exec(`SELECT pg_logical_emit_message(true, 'somebody else''s', 'not json')`)
	r.exec(`SELECT pg_logical_emit_message(false, 'weir.removed', '{"stripe": {"accepted": 7}}')`)
	r.insert("webhook", "b", 2)
	r.exec(`TRUNCATE weir.deliveries`)
	r.insert("stripe", "c", 1)
	r.wants("started",
		"  insert stripe pending", "commit",
		"  update stripe pending>leased lease=true", "commit",
		"  update stripe leased>accepted lease=false", "commit",
		"  removed stripe accepted 1", "  delete", "commit",
		"  insert webhook pending", "  insert webhook pending", "commit",
		"  truncate", "commit",
		"  insert stripe pending", "commit")
	r.counted()
	r.stop()
	if last := r.log.last; last.ID != 4 || time.Since(last.NextAttemptAt).Abs() > time.Minute {
		t.Errorf("last insert: %+v, want id 4, due now", last)
	}
}

// lesson 8: what was rolled back doesn't come, and what stands beside it does.
func TestRollbacks(t *testing.T) {
	r := setUp(t).start().streaming()
	r.exec(`DO $$ BEGIN
	    PERFORM weir.enqueue('t', 'kept-1', 'test', 'v1', '{}');
	    BEGIN
	        PERFORM weir.enqueue('t', 'dropped', 'test', 'v1', '{}');
	        RAISE EXCEPTION 'undo';
	    EXCEPTION WHEN OTHERS THEN NULL;
	    END;
	    PERFORM weir.enqueue('t', 'kept-2', 'test', 'v1', '{}');
	END $$`)
	conn, err := r.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{
		`BEGIN`, `SELECT weir.enqueue('t', 'rolled back', 'test', 'v1', '{}')`, `ROLLBACK`,
		`BEGIN`, `SAVEPOINT s`, `SELECT weir.enqueue('t', 'in a savepoint', 'test', 'v1', '{}')`, `ROLLBACK TO s`,
		`SELECT weir.enqueue('t', 'kept-3', 'test', 'v1', '{}')`, `COMMIT`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r.wants("started",
		"  insert stripe pending", "  insert stripe pending", "commit",
		"  insert stripe pending", "commit")
	r.counted()
	r.stop()
}

// lesson 16: a transaction of any size is handed on change by change.
func TestMemoryStaysFlatInALargeTransaction(t *testing.T) {
	const rows, limit = 200_000, 16 << 20
	r := setUp(t)
	r.log.quiet = true
	var peak atomic.Uint64
	n := 0
	r.log.slow = func() {
		if n++; n%10_000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
		}
	}
	r.start().streaming()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	r.insert("stripe", "bulk", rows)
	r.eventually(func() error {
		if got := r.log.count(); got != rows {
			return fmt.Errorf("%d of %d changes", got, rows)
		}
		return nil
	})
	if grown := int64(peak.Load()) - int64(before.HeapAlloc); grown > limit {
		t.Errorf("heap grew by %d bytes during %d changes, want at most %d", grown, rows, limit)
	}
	r.stop()
}

// lesson 17: a busy handler doesn't keep the server from hearing of weir.
func TestStatusFlowsWhileTheHandlerIsBusy(t *testing.T) {
	r := setUp(t)
	r.config.WalSenderTimeout = time.Second
	work := time.NewTicker(30 * time.Millisecond)
	defer work.Stop()
	r.log.slow = func() { <-work.C }
	r.start().streaming()
	r.insert("stripe", "slow", 100) // three timeouts' worth of work in one transaction
	r.counted()
	if n := r.stream.Status().Reconnects; n != 0 {
		t.Errorf("%d reconnects, want none: the server timed out", n)
	}
	r.stop()
}

// lesson 11: an idle outbox in a busy database keeps no WAL. lesson 4: what is left out is confirmed too.
// lesson 7: nor is there a heartbeat to forget.
func TestIdleOutboxAdvancesInABusyDatabase(t *testing.T) {
	r := setUp(t).start().streaming()
	r.exec(`CREATE TABLE busy (n int); INSERT INTO busy SELECT generate_series(1, 20000)`)
	target := r.walPosition()
	r.eventually(func() error {
		if at := r.slot().Confirmed; at < target {
			return fmt.Errorf("slot is at %s, not yet at %s", at, target)
		}
		return nil
	})
	if n := r.log.count(); n != 0 {
		t.Errorf("%d changes, want none", n)
	}
	r.stop()
}

// lesson 3: received and confirmed are two. The server never hears of more than the ledger has kept.
func TestConfirmedIsNeverAheadOfTheLedger(t *testing.T) {
	r := setUp(t)
	r.ledger.manual = true
	r.start().streaming()
	first := r.ledger.Confirmed()
	r.insert("stripe", "a", 10)
	r.counted()
	r.exec(`CREATE TABLE busy AS SELECT generate_series(1, 1000)`)
	target := r.walPosition()
	r.eventually(func() error {
		if at := r.stream.Status().Received; at < target {
			return fmt.Errorf("received %s", at)
		}
		return nil
	})
	told := r.stream.Status().Since
	r.eventually(func() error { // some more status updates go out
		if time.Since(told) < 5*r.config.statusEvery() {
			return fmt.Errorf("too early")
		}
		return nil
	})
	if at := r.slot().Confirmed; at > first {
		t.Errorf("slot confirmed %s, the ledger has only %s", at, first)
	}
	s := r.stream.Status()
	if s.Confirmed != first || s.Confirmed >= s.Received {
		t.Errorf("confirmed %s, received %s, want confirmed %s", s.Confirmed, s.Received, first)
	}
	r.stop()
}

// lesson 6: the ledger's last word reaches the server, so nothing comes again after a clean restart.
func TestNothingComesTwiceAfterACleanRestart(t *testing.T) {
	r := setUp(t)
	r.ledger.manual = true
	r.start().streaming()
	r.insert("stripe", "a", 10)
	r.counted()
	r.stop()
	if r.ledger.flushes != 1 {
		t.Errorf("ledger flushed %d times, want once", r.ledger.flushes)
	}
	slot := r.slot()
	if slot.Active {
		t.Errorf("the slot is still in use by pid %d after Run has returned", slot.ActivePID)
	}
	if slot.Confirmed < r.log.end {
		t.Errorf("slot confirmed %s, want at least the last commit's end %s", slot.Confirmed, r.log.end)
	}
	before := r.log.count()
	r.start().streaming()
	r.insert("stripe", "b", 1)
	r.counted()
	if got := r.log.count() - before; got != 1 {
		t.Errorf("%d changes after the restart, want the new one only", got)
	}
	if n := r.ledger.rebases(); n != 1 {
		t.Errorf("counted anew %d times, want once at the beginning", n)
	}
	r.stop()
}

// lesson 21: a transaction that isn't durable in the ledger comes again, whole.
func TestUnconfirmedComesAgain(t *testing.T) {
	r := setUp(t)
	r.ledger.manual = true
	r.start().streaming()
	r.insert("stripe", "a", 3)
	r.counted()
	r.exec(`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1`, r.config.Slot)
	r.wants("started", "  insert stripe pending", "  insert stripe pending", "  insert stripe pending", "commit",
		"stopped",
		"started", "  insert stripe pending", "  insert stripe pending", "  insert stripe pending", "commit")
	r.stop()
}
