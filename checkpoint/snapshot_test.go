package checkpoint

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/internal/postgres"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/migrations"
)

// A slot's snapshot shows a commit that is in the log and still on its way through the server, here because
// it waits for a standby. The table is not read before it has arrived: rows read too early would be taken for
// rolled back, for good (lesson 2).
//
//	slot:  waits for first ───▶ waits for second ─────────────────▶ snapshot
//	first: ──────── rollback
//	second:      ─────────────────────────────────────── rollback
//	late:                              insert, commit … … … … … … … … … … … ▶
func TestSnapshotOfACommitOnItsWay(t *testing.T) {
	c := pgtest.Cluster(t, postgres.Options{})
	url := c.URL("postgres")
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, url, "weir")
	r.exec(`ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	r.exec(`SELECT pg_reload_conf()`)
	r.eventually(func() error { return r.setting(url, "synchronous_standby_names", "nobody") })

	b := r.idle()
	b.take(View{Source: source, At: 1, Counts: machine.Counts{}})
	first := r.running()
	done := make(chan census, 1)
	go func() {
		got, err := b.census(t.Context(), url)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	r.eventually(func() error { return r.waitingFor(first) })
	second := r.running()
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() error { return r.waitingFor(second) })
	committed := make(chan error, 1)
	go func() {
		_, err := r.pool.Exec(t.Context(), insertSQL, "stripe", "late", 7)
		committed <- err
	}()
	r.eventually(r.stuck)
	if err := second.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-done:
		t.Errorf("counted too early: %v", got.real.Nested())
		done <- got
	case <-time.After(300 * time.Millisecond):
	}
	r.exec(`ALTER SYSTEM RESET synchronous_standby_names`)
	r.exec(`SELECT pg_reload_conf()`)
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	if got := (<-done).real.Get("stripe", machine.Pending); got != 7 {
		t.Errorf("counted %d items, want the 7 that were on their way", got)
	}
}

// running begins a transaction that has an id.
func (r *rig) running() pgx.Tx {
	r.t.Helper()
	tx := r.begin()
	if _, err := tx.Exec(r.t.Context(), `SELECT pg_current_xact_id()`); err != nil {
		r.t.Fatal(err)
	}
	return tx
}

// waitingFor demands that a session waits for the end of the transaction.
func (r *rig) waitingFor(tx pgx.Tx) error {
	return r.some(`
SELECT count(*) FROM pg_locks w JOIN pg_locks h USING (locktype, transactionid)
 WHERE w.locktype = 'transactionid' AND NOT w.granted AND h.granted AND h.pid = $1`, tx.Conn().PgConn().PID())
}

// stuck demands that a commit waits for a standby.
func (r *rig) stuck() error {
	return r.some(`SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
}

func (r *rig) some(sql string, args ...any) error {
	var n int
	err := r.pool.QueryRow(r.t.Context(), sql, args...).Scan(&n)
	if err == nil && n == 0 {
		err = fmt.Errorf("none: %s", sql)
	}
	return err
}

// setting demands that a new session has the setting.
func (r *rig) setting(url, name, want string) error {
	conn, err := pgx.Connect(r.t.Context(), url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(r.t.Context()) }()
	var got string
	if err := conn.QueryRow(r.t.Context(), `SELECT current_setting($1)`, name).Scan(&got); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s is %q, want %q", name, got, want)
	}
	return nil
}
