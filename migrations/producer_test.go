package migrations_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-relay/weir/internal/pgtest"
)

// states are the states of all deliveries, in the order of their items.
func states(t *testing.T, tx pgx.Tx) string {
	t.Helper()
	if _, err := tx.Exec(t.Context(), `RESET ROLE`); err != nil {
		t.Fatal(err)
	}
	var states string
	if err := tx.QueryRow(t.Context(), `SELECT coalesce(string_agg(concat_ws(':', state, exporter, order_key, source, quarantine_reason), ' ' ORDER BY id), '')
		FROM weir.items`).Scan(&states); err != nil {
		t.Fatal(err)
	}
	return states
}

// A producer in any language does with INSERT on weir.outbox alone.
func TestProducerNeedsOnlyInsert(t *testing.T) {
	db := pgtest.Migrated(t)
	producer := role(t, db, `GRANT USAGE ON SCHEMA weir TO %s`, `GRANT INSERT ON weir.outbox TO %s`)

	const columns = `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload) VALUES `
	const a, b, c = `('t', 'a', 'test', '1', '{}')`, `('t', 'b', 'test', '1', '{}')`, `('t', 'c', 'test', '1', '{}')`
	const pending = "pending:stripe"
	for name, tt := range map[string]struct {
		do   func(pgx.Tx) error
		want string
	}{
		"one row": {run(t, columns+a), pending},
		"many":    {run(t, columns+a+","+b+","+c), pending + " " + pending + " " + pending},
		"again":   {run(t, columns+a, columns+a+` ON CONFLICT DO NOTHING`), pending},
		"partly":  {run(t, columns+a, columns+b+","+a+","+c+` ON CONFLICT DO NOTHING`), pending + " " + pending + " " + pending},
		"within":  {run(t, columns+a+","+a+` ON CONFLICT DO NOTHING`), pending},
		"none":    {run(t, columns+a+` ON CONFLICT DO NOTHING`, `INSERT INTO weir.outbox (tenant_key) SELECT 't' WHERE false`), pending},
		"staged": {run(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, exporter, mode, mapping_version, payload, order_key, source, quarantine_reason)
			VALUES ('t', 'a', 'webhook', 'test', '1', '{}', 'k', 's', 'attribution_unresolved'), ('t', 'b', 'webhook', 'test', '1', '{}', 'k', NULL, NULL)`),
			"quarantined:webhook:k:s:attribution_unresolved pending:webhook:k"},
		"COPY": {func(tx pgx.Tx) error {
			_, err := tx.CopyFrom(t.Context(), pgx.Identifier{"weir", "outbox"},
				[]string{"tenant_key", "subject_ref", "mode", "mapping_version", "payload"},
				pgx.CopyFromRows([][]any{{"t", "a", "test", "1", "{}"}, {"t", "b", "test", "1", "{}"}}))
			return err
		}, pending + " " + pending},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := db.Pool().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context())
			if _, err := tx.Exec(t.Context(), `SET LOCAL ROLE `+producer); err != nil {
				t.Fatal(err)
			}
			if err := tt.do(tx); err != nil {
				t.Fatal(err)
			}
			if got := states(t, tx); got != tt.want {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}

// What INSERT doesn't give: nobody but the relay's role touches deliveries, or reads payloads.
func TestProducerMayNothingElse(t *testing.T) {
	db := pgtest.Migrated(t)
	producer := role(t, db, `GRANT USAGE ON SCHEMA weir TO %s`, `GRANT INSERT ON weir.outbox TO %s`)
	for _, statement := range []string{
		`SELECT payload FROM weir.outbox`,
		`SELECT payload FROM weir.items`,
		`DELETE FROM weir.outbox`,
		`UPDATE weir.outbox SET mode = 'live'`,
		`SELECT state FROM weir.deliveries`,
		`UPDATE weir.deliveries SET attempts = 0`,
		delivery(),
		operation(),
		`CREATE TABLE weir.x ()`,
	} {
		if pg := refusal(t, db, `SET LOCAL ROLE `+producer+`;`+statement); pg == nil || pg.Code != "42501" {
			t.Errorf("want insufficient privilege, got %v:\n%s", pg, statement)
		}
	}
}

// role makes a role with grants, dropped when the test ends.
func role(t *testing.T, db *pgtest.DB, grants ...string) string {
	t.Helper()
	quoted := pgx.Identifier{"role_" + db.Name()}.Sanitize()
	db.Exec(t, `CREATE ROLE `+quoted)
	t.Cleanup(func() {
		for _, statement := range []string{`DROP OWNED BY `, `DROP ROLE `} {
			if _, err := db.Pool().Exec(context.WithoutCancel(t.Context()), statement+quoted); err != nil {
				t.Error(err)
			}
		}
	})
	for _, grant := range grants {
		db.Exec(t, fmt.Sprintf(grant, quoted))
	}
	return quoted
}

func run(t *testing.T, statements ...string) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		for _, s := range statements {
			if _, err := tx.Exec(t.Context(), s); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestEnqueueFunction(t *testing.T) {
	db := pgtest.Migrated(t)
	const enqueue = `SELECT weir.enqueue('t', $1, 'test', '1', $2)`
	first := one[int64](t, db, enqueue, "a", `{"value": "1", "meter": "m"}`)
	other := one[int64](t, db, enqueue, "b", `{"value": "1"}`)
	again := one[int64](t, db, enqueue, "a", `{"meter":"m","value":"1"}`)
	if first == other || again != first {
		t.Errorf("want the first id for the same item, got %d, %d, %d", first, other, again)
	}
	if got := one[string](t, db, `SELECT state FROM weir.items WHERE id = $1`, first); got != "pending" {
		t.Errorf("want a pending item, got %s", got)
	}

	_, err := db.Pool().Exec(t.Context(), enqueue, "a", `{"value": "2"}`)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "WE001" || !strings.Contains(pg.Message, fmt.Sprintf("item %d (a)", first)) || pg.Hint == "" {
		t.Errorf("want WE001 that names the item, with a hint, got %v", err)
	}
	if got := one[string](t, db, `SELECT payload->>'value' FROM weir.items WHERE id = $1`, first); got != "1" {
		t.Errorf("the first payload must stand, got %s", got)
	}

	staged := one[int64](t, db, `SELECT weir.enqueue(tenant_key => 't', subject_ref => 'c', mode => 'live', mapping_version => 'v2', payload => '{}',
		subject_kind => 'correction', exporter => 'webhook', destination_account => 'acct_1', order_key => 'k', source => 's',
		traceparent => 'p', quarantine_reason => 'q')`)
	got := one[string](t, db, `SELECT concat_ws(' ', state, mode, mapping_version, subject_kind, exporter, destination_account, order_key, source, traceparent, quarantine_reason)
		FROM weir.items WHERE id = $1`, staged)
	if want := "quarantined live v2 correction webhook acct_1 k s p q"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

// identities differ pairwise, some only in where one part ends and the next begins.
func identities() [][7]string {
	plain := [7]string{"t", "usage", "r", "stripe", "", "test", "1"}
	list := [][7]string{plain}
	add := func(change func(*[7]string)) {
		id := plain
		change(&id)
		list = append(list, id)
	}
	free := []int{0, 1, 2, 4, 6} // the columns that take any text
	for _, i := range free {
		for _, text := range []string{"A", "a", `\101`, `\\101`, `\x41`, `\`, `\\`, "\x1e", "\n", " ", "é", "e\u0301", "😀", "'", `"`, "␟"} {
			add(func(id *[7]string) { id[i] = text })
		}
	}
	for n, i := range free[1:] {
		before := free[n]
		add(func(id *[7]string) { id[before], id[i] = "xy", "z" })
		add(func(id *[7]string) { id[before], id[i] = "x", "yz" })
		add(func(id *[7]string) { id[before], id[i] = "z", "xy" })
		add(func(id *[7]string) { id[before], id[i] = `x\`, "yz" })
		add(func(id *[7]string) { id[before], id[i] = "x", `\yz` })
	}
	add(func(id *[7]string) { id[3] = "webhook" })
	add(func(id *[7]string) { id[5] = "live" })
	return list
}

func TestIdentity(t *testing.T) {
	db := pgtest.Migrated(t)
	seen := map[[32]byte][7]string{}
	for _, id := range identities() {
		var column, function []byte
		err := db.Pool().QueryRow(t.Context(), `
			INSERT INTO weir.outbox (tenant_key, subject_kind, subject_ref, exporter, destination_account, mode, mapping_version, payload)
			VALUES ($1, $2, $3, $4, $5, $6, $7, '{}')
			RETURNING identity, weir.identity(tenant_key, subject_kind, subject_ref, exporter, destination_account, mode, mapping_version)`,
			id[0], id[1], id[2], id[3], id[4], id[5], id[6]).Scan(&column, &function)
		if err != nil {
			t.Errorf("%q: %v", id, err)
			continue
		}
		want := sha256.Sum256([]byte(strings.Join(id[:], "\x1f")))
		if string(column) != string(want[:]) || string(function) != string(want[:]) {
			t.Errorf("%q: want %x, got %x from the column and %x from weir.identity", id, want, column, function)
		}
		if twin, ok := seen[want]; ok {
			t.Errorf("%q and %q share an identity", id, twin)
		}
		seen[want] = id
	}
	if len(seen) < 100 {
		t.Errorf("want at least 100 identities, got %d", len(seen))
	}
}
