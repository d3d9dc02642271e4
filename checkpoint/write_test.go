package checkpoint

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-relay/weir/replication"
)

// While the row can't be written, the book counts on and confirms nothing; then it catches up.
func TestWriteFails(t *testing.T) {
	for name, fault := range map[string]func(r *rig) (mend func()){
		"table locked": func(r *rig) func() {
			lock := r.begin()
			if _, err := lock.Exec(r.t.Context(), `LOCK TABLE weir.checkpoints IN SHARE MODE`); err != nil {
				r.t.Fatal(err)
			}
			return func() { _ = lock.Rollback(r.t.Context()) }
		},
		"statement timeout": func(r *rig) func() {
			r.exec(`
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014'; END$$`)
			r.exec(`CREATE TRIGGER slow BEFORE UPDATE ON weir.checkpoints FOR EACH ROW EXECUTE FUNCTION slow()`)
			return func() { r.exec(`DROP TRIGGER slow ON weir.checkpoints`) }
		},
		"connection killed": func(r *rig) func() {
			r.exec(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); RETURN NEW; END$$`)
			r.exec(`CREATE TRIGGER die BEFORE UPDATE ON weir.checkpoints FOR EACH ROW EXECUTE FUNCTION die()`)
			return func() { r.exec(`DROP TRIGGER die ON weir.checkpoints`) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := setUp(t)
			r.start().streaming()
			r.insert("stripe", "before", 3)
			r.durable()
			mend := fault(r)
			row := r.row()
			r.insert("stripe", "meanwhile", 5)
			r.counted()
			wait(t, 300*time.Millisecond) // many writes and status updates could have been
			if got := r.book.Confirmed(); got != row.At {
				t.Errorf("the book confirms %v, the row is at %v", got, row.At)
			}
			if got := r.confirmed(); got > row.At { // lessons 3, 4
				t.Errorf("the server was told %v, the row is at %v", got, row.At)
			}
			if n := r.logs.count("was not written"); n > 2*int(300*time.Millisecond/r.every) {
				t.Errorf("%d attempts: that is a busy loop", n)
			}
			mend()
			r.durable()
			r.eventually(func() error {
				if got, want := r.confirmed(), r.row().At; got < want {
					return fmt.Errorf("the server was told %v, the row is at %v", got, want)
				}
				return nil
			})
		})
	}
}

// updates is how often the row was written.
func (r *rig) updates() (n int64) {
	r.t.Helper()
	// The statistics of another session reach the view when it has been idle for a second or so; the row itself
	// is asked instead: each write is a new version of it.
	err := r.pool.QueryRow(r.t.Context(), `SELECT n FROM written`).Scan(&n)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// countUpdates makes updates work.
func (r *rig) countUpdates() {
	r.exec(`CREATE TABLE written (n bigint)`)
	r.exec(`INSERT INTO written VALUES (0)`)
	r.exec(`CREATE FUNCTION wrote() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN UPDATE public.written SET n = n + 1; RETURN NULL; END$$`)
	r.exec(`CREATE TRIGGER wrote AFTER UPDATE ON weir.checkpoints FOR EACH ROW EXECUTE FUNCTION wrote()`)
}

// At most one write a second while busy, and none while idle.
func TestWritesAreRare(t *testing.T) {
	r := setUp(t)
	r.every = interval
	r.countUpdates()
	r.start().streaming()
	r.insert("stripe", "first", 1)
	r.durable()
	began, before := time.Now(), r.updates()
	stop := traffic(t, r.pool, 3, 2, false)
	wait(t, 3500*time.Millisecond)
	stop()
	busy, took := r.updates()-before, time.Since(began)
	if limit := int64(took/interval) + 1; busy > limit || busy < 2 {
		t.Errorf("%d writes in %v", busy, took)
	}
	r.durable()
	before = r.updates()
	wait(t, 3*time.Second)
	if idle := r.updates() - before; idle > 0 {
		t.Errorf("%d writes while idle", idle)
	}
}

// In a busy database with an idle outbox the position goes on, by a step of idleStep or so (lesson 11).
func TestIdleOutboxInABusyDatabase(t *testing.T) {
	r := setUp(t)
	r.countUpdates()
	r.start().streaming()
	r.insert("stripe", "a", 1)
	r.durable()
	row, before := r.row(), r.updates()
	r.exec(`CREATE TABLE noise (b bytea)`)
	const blob = 1 << 20
	for written := 0; written < 5*idleStep/2; written += blob {
		r.exec(`INSERT INTO noise SELECT string_agg(decode(md5(random()::text), 'hex'), '') FROM generate_series(1, $1::int / 16)`, blob)
	}
	end := r.walPosition()
	r.eventually(func() error {
		if at := r.row().At; at+idleStep < end {
			return fmt.Errorf("the row is at %v, the log at %v", at, end)
		}
		if at := r.confirmed(); at+idleStep < end {
			return fmt.Errorf("the server was told %v, the log is at %v", at, end)
		}
		return nil
	})
	// Two a step: another may be asked for while the first is being written.
	if moved, n := r.row().At-row.At, r.updates()-before; n < 1 || n > 2+2*int64(moved/idleStep) {
		t.Errorf("%d writes for %d bytes of log", n, moved)
	}
	if got := r.row(); !got.Counts.Equal(row.Counts) {
		t.Errorf("counts became %v", got.Counts.Nested())
	}
}

// Idle: a position is one to go on from, wherever it stands to the transactions around it.
func TestIdleNeverCrossesAnUnreadCommit(t *testing.T) {
	r := setUp(t)
	w := watch(t, r.url, r.slot)
	r.start().streaming()
	s := sample(t, r.pool, r.slot)
	// A transaction that is open for long, while others and noise go by, so that keepalives tell positions
	// past its first changes.
	long := r.begin()
	if _, err := long.Exec(t.Context(), insertSQL, "stripe", "long", 2000); err != nil {
		t.Fatal(err)
	}
	var told replication.LSN
	for n := range 30 {
		r.insert("webhook", fmt.Sprint("short-", n), 1)
		r.exec(`SELECT pg_logical_emit_message(false, 'noise', repeat('x', 10000))`)
		r.counted()
		told = r.row().At
	}
	if err := long.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.counted()
	r.durable()
	if r.row().At <= told {
		t.Errorf("the row stays at %v", told)
	}
	r.stop()
	r.start().streaming()
	r.counted()
	s.verify(w, 3)
}
