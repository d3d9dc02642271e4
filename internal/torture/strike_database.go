package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
)

// crash ends Postgres and starts it again after a while.
func (w *world) crash(ctx context.Context, end func() error, after time.Duration) error {
	w.mend.Lock() // other strikes may be about to restart it or to change its settings
	defer w.mend.Unlock()
	if err := end(); err != nil {
		return err
	}
	if err := sleep(ctx, after/2); err != nil {
		return err
	}
	return w.arena.cluster.Restart(ctx)
}

// terminate ends weir's backends of a kind.
func (w *world) terminate(ctx context.Context, kind string) error {
	_, err := w.db().Exec(ctx, `
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'weir%' AND backend_type = $1`, kind)
	return unlessDown(err)
}

// unlessDown makes a miss of an error of a server that is down because of another strike.
func unlessDown(err error) error {
	var pg *pgconn.PgError
	if err != nil && (!errors.As(err, &pg) || pg.Code[:2] == "57" || pg.Code[:2] == "08") {
		return missed(err)
	}
	return err
}

// cut ends a link's connections, and lets none through for a while.
func cut(ctx context.Context, l *link, d time.Duration) error {
	l.cut()
	defer l.mend()
	return sleep(ctx, d)
}

// forgotten harms a link for a while, and then ends its connections, as a network does that has forgotten them:
// what was lost in them is never sent again.
func forgotten(ctx context.Context, l *link, d time.Duration, h harm, directions ...direction) error {
	err := l.during(ctx, d, h, directions...)
	l.cut()
	l.mend()
	return err
}

// evict ends whoever reads weir's slot.
func (w *world) evict(ctx context.Context) error {
	_, err := w.db().Exec(ctx, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active`, w.slot())
	return err
}

// dropSlot drops weir's slot under the relay that reads it.
func (w *world) dropSlot(ctx context.Context) error {
	return until(ctx, func(ctx context.Context) error {
		return poll(ctx, func() bool {
			if w.evict(ctx) != nil {
				return false
			}
			_, err := w.db().Exec(ctx, `SELECT pg_drop_replication_slot($1)`, w.slot())
			return err == nil
		})
	})
}

// stealSlot reads weir's slot for a while, as somebody does who has the wrong name in a setting.
func (w *world) stealSlot(ctx context.Context, d time.Duration) error {
	config, err := pgconn.ParseConfig(w.arena.cluster.URL(w.database))
	if err != nil {
		return err
	}
	config.RuntimeParams["replication"] = "database"
	config.RuntimeParams["application_name"] = "thief"
	var conn *pgconn.PgConn
	err = until(ctx, func(ctx context.Context) error {
		return poll(ctx, func() bool {
			if w.evict(ctx) != nil {
				return false
			}
			if conn, err = pgconn.ConnectConfig(ctx, config); err != nil {
				return false
			}
			err = pglogrepl.StartReplication(ctx, conn, w.slot(), 0, pglogrepl.StartReplicationOptions{
				PluginArgs: []string{"proto_version '1'", "publication_names 'weir'"},
			})
			if err != nil {
				conn.Close(ctx)
			}
			return err == nil
		})
	})
	if err != nil {
		return missed(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	w.journal.note("somebody else reads the slot")
	return sleep(ctx, d)
}

// loseSlot makes the server remove log that weir's slot needs, while its reader is frozen. The harness's own
// slot is moved on before.
func (w *world) loseSlot(ctx context.Context) error {
	w.mend.Lock()
	defer w.mend.Unlock()
	for _, r := range w.relays {
		defer r.stream.put(harm{hold: true}, toServer)()
	}
	conn, err := w.db().Acquire(ctx)
	if err != nil {
		return missed(err)
	}
	defer conn.Release()
	for i := range 6 {
		// A switch needs something in the log before it. A checkpoint says which transactions run, without which
		// no slot moves on, and it takes two to do so.
		for _, sql := range []string{`SELECT pg_logical_emit_message(false, 'torture', 'x')`, `SELECT pg_switch_wal()`, `CHECKPOINT`} {
			if i > 2 && sql == `SELECT pg_switch_wal()` {
				continue
			}
			if _, err := conn.Exec(ctx, sql); err != nil {
				return missed(err)
			}
		}
		if err := w.history.read(ctx); err != nil {
			return missed(err)
		}
	}
	var safe bool
	err = conn.QueryRow(ctx, `
SELECT pg_walfile_name(restart_lsn) = pg_walfile_name(pg_current_wal_lsn()) FROM pg_replication_slots WHERE slot_name = $1`, w.history.slot).Scan(&safe)
	if err != nil || !safe {
		return fmt.Errorf("%w: a transaction keeps the harness's own slot back", errMissed)
	}
	if err := w.arena.cluster.Set(ctx, "max_slot_wal_keep_size", "1MB"); err != nil {
		return missed(err)
	}
	_, err = conn.Exec(ctx, `CHECKPOINT`)
	var status string
	scanned := conn.QueryRow(ctx, `SELECT coalesce(max(wal_status), 'gone') FROM pg_replication_slots WHERE slot_name = $1`, w.slot()).Scan(&status)
	w.journal.note("the slot is %s", status)
	reset := w.arena.cluster.Set(context.WithoutCancel(ctx), "max_slot_wal_keep_size", "-1")
	if err := errors.Join(err, scanned); err != nil {
		return errors.Join(missed(err), reset)
	}
	return reset
}

// lateVisibility makes commits wait for a standby that isn't there: they are in the log, and visible to nobody.
func (w *world) lateVisibility(ctx context.Context, d time.Duration) error {
	w.mend.Lock()
	defer w.mend.Unlock()
	if err := w.arena.cluster.Set(ctx, "synchronous_standby_names", "nobody"); err != nil {
		return missed(err)
	}
	err := sleep(ctx, d)
	return errors.Join(err, w.arena.cluster.Set(context.WithoutCancel(ctx), "synchronous_standby_names", ""))
}

// longTransaction keeps a transaction open that has written: slots that are made meanwhile wait for it.
func (w *world) longTransaction(ctx context.Context, d time.Duration) error {
	tx, err := w.db().Begin(ctx)
	if err != nil {
		return missed(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was to be kept
	if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id()`); err != nil {
		return missed(fmt.Errorf("take an id: %w", err))
	}
	return sleep(ctx, d)
}

// quietDatabase says whether no strike is at the server.
func (w *world) quietDatabase() bool {
	if !w.mend.TryLock() {
		return false
	}
	w.mend.Unlock()
	return true
}
