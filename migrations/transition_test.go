package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// stand puts an item into state, as no writer of weir does.
const stand = `
INSERT INTO weir.deliveries (id, exporter, state, from_state, lease_token, attempts, first_attempt_at,
       lease_owner, lease_expires_at, accepted_at, confirmed_at, last_error, quarantine_reason)
SELECT 1, 'stripe', s, 'pending', 5, 1, now(), CASE WHEN s = 'leased' THEN 'w' END,
       CASE WHEN s = 'leased' THEN now() END, now(), CASE WHEN s = 'confirmed' THEN now() END,
       'http_503', CASE WHEN s = 'quarantined' THEN 'q' END
  FROM (SELECT $1::text) x (s)`

// move sets state, from_state and lease_token, and all else so that no constraint minds.
const move = `
UPDATE weir.deliveries
   SET state = s, from_state = f, lease_token = lease_token + by,
       lease_owner = CASE WHEN s = 'leased' THEN 'w' END,
       lease_expires_at = CASE WHEN s = 'leased' THEN now() END,
       confirmed_at = CASE WHEN s = 'confirmed' THEN now() END,
       quarantine_reason = CASE WHEN s = 'quarantined' THEN 'q' END
  FROM (SELECT $1::text, $2::text, $3::bigint) x (s, f, by)
 WHERE id = 1`

// moved tries one move of an item that stands in from, and undoes it.
func moved(t *testing.T, db *pgtest.DB, from, to machine.State, said any, by int) error {
	t.Helper()
	tx, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), stand, from); err != nil {
		t.Fatalf("stand in %s: %v", from, err)
	}
	tag, err := tx.Exec(t.Context(), move, to, said, by)
	if err == nil && tag.RowsAffected() != 1 {
		t.Fatalf("the move found %d rows", tag.RowsAffected())
	}
	return err
}

// refused reports whether err is the trigger's, and names both ends.
func refused(err error, from, to machine.State) bool {
	pg, ok := err.(*pgconn.PgError)
	return ok && pg.Code == "23001" && strings.Contains(pg.Message, "item 1 from "+string(from)) &&
		strings.HasSuffix(pg.Message, " to "+string(to)) && pg.Hint != ""
}

func inTable(from, to machine.State) bool {
	return slices.ContainsFunc(machine.Table, func(tr machine.Transition) bool { return tr.From == from && tr.To == to })
}

// The schema knows the same edges as machine.Table.
func TestTransitions(t *testing.T) {
	db := pgtest.Migrated(t)
	for _, from := range machine.States {
		t.Run(string(from), func(t *testing.T) {
			for _, to := range machine.States {
				err := moved(t, db, from, to, from, 1)
				switch {
				case inTable(from, to) && err != nil:
					t.Errorf("%s: the machine has it, the schema refuses: %v", to, err)
				case !inTable(from, to) && !refused(err, from, to):
					t.Errorf("%s: the machine does not have it; want a refusal that names both, got %v", to, err)
				}
			}
		})
	}
}

// from_state moves the counts of whoever reads the stream, so a wrong one would corrupt them.
func TestFromStateMustBeTrue(t *testing.T) {
	db := pgtest.Migrated(t)
	for _, tr := range machine.Table {
		if tr.From == machine.None {
			continue
		}
		if err := moved(t, db, tr.From, tr.To, nil, 1); !refused(err, tr.From, tr.To) {
			t.Errorf("%s to %s said to come from nowhere: want a refusal, got %v", tr.From, tr.To, err)
		}
		for _, lie := range machine.States {
			if lie == tr.From {
				continue
			}
			if err := moved(t, db, tr.From, tr.To, lie, 1); !refused(err, tr.From, tr.To) {
				t.Errorf("%s to %s said to come from %s: want a refusal, got %v", tr.From, tr.To, lie, err)
			}
		}
	}
}

// A token that falls would let a stale writer in. // lesson 23
func TestTokenNeverFalls(t *testing.T) {
	db := pgtest.Migrated(t)
	for _, tr := range machine.Table {
		if tr.From == machine.None {
			continue
		}
		if err := moved(t, db, tr.From, tr.To, tr.From, 0); err != nil {
			t.Errorf("%s to %s with the same token: %v", tr.From, tr.To, err)
		}
		if err := moved(t, db, tr.From, tr.To, tr.From, -1); !refused(err, tr.From, tr.To) {
			t.Errorf("%s to %s with a lower token: want a refusal, got %v", tr.From, tr.To, err)
		}
	}
}

func TestOutboxIsImmutable(t *testing.T) {
	db := pgtest.Migrated(t)
	db.Exec(t, outbox())
	for _, statement := range []string{
		`UPDATE weir.outbox SET payload = '{"value": 1}'`,
		`UPDATE weir.outbox SET tenant_key = tenant_key`,
		`UPDATE weir.outbox SET inserted_at = now() WHERE id = -1`,
		outbox() + ` ON CONFLICT (identity) DO UPDATE SET payload = excluded.payload`,
	} {
		if pg := refusal(t, db, statement); pg == nil || pg.Code != "23001" || pg.Hint == "" {
			t.Errorf("want a refusal with a hint, got %v:\n%s", pg, statement)
		}
	}
	db.Exec(t, `DELETE FROM weir.outbox`) // retention may
}

// claim and retry change what the hot path changes.
const (
	claim = `
UPDATE weir.deliveries
   SET state = 'leased', from_state = state, lease_owner = 'w', lease_expires_at = clock_timestamp() + interval '2 minutes',
       lease_token = lease_token + 1, attempts = attempts + 1, first_attempt_at = coalesce(first_attempt_at, clock_timestamp())`
	retry = `
UPDATE weir.deliveries
   SET state = 'pending', from_state = state, lease_owner = NULL, lease_expires_at = NULL,
       next_attempt_at = clock_timestamp(), last_error = 'http_503'`
)

// A claim, or a retry, whose new row version needs new index entries costs half the throughput.
func TestClaimsAreHOT(t *testing.T) {
	hot, all := updates(t, "")
	if hot != all {
		t.Errorf("want all %d updates to be heap-only, got %d: an index names a column that claims change", all, hot)
	}
	// The same with such an index: the measurement can tell.
	if hot, all := updates(t, `CREATE INDEX ON weir.deliveries (id) WHERE state = 'pending'`); hot == all {
		t.Errorf("an index on state leaves all %d updates heap-only: this test proves nothing", all)
	}
}

// updates claims and retries 20 items, few enough for one page, and tells how many of the updates were heap-only.
func updates(t *testing.T, index string) (hot, all int64) {
	t.Helper()
	db := pgtest.Migrated(t)
	if index != "" {
		db.Exec(t, index)
	}
	db.Exec(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload, order_key)
		SELECT 't', n::text, 'test', '1', '{}', CASE WHEN n % 2 = 0 THEN 'k' END FROM generate_series(1, 20) n`)
	// One session: its counts are flushed at the end of the transaction that asks for it.
	err := db.Pool().AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		for _, statement := range []string{claim, retry, `SELECT pg_stat_force_next_flush()`} {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				return err
			}
		}
		return conn.QueryRow(t.Context(), `SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables
			WHERE relid = 'weir.deliveries'::regclass`).Scan(&hot, &all)
	})
	if err != nil {
		t.Fatal(err)
	}
	if all != 40 {
		t.Fatalf("want 40 updates, Postgres has counted %d", all)
	}
	return hot, all
}
