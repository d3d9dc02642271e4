package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weir-relay/weir/internal/pgtest"
)

// begin starts a transaction that ends with the test.
func begin(t *testing.T, db *pgtest.DB) pgx.Tx {
	t.Helper()
	return beginAt(t, db, pgx.ReadCommitted)
}

func beginAt(t *testing.T, db *pgtest.DB, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := db.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func mustEnqueue(t *testing.T, tx pgx.Tx, items ...Item) []Receipt {
	t.Helper()
	receipts, err := Enqueue(t.Context(), tx, items...)
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func one[T any](t *testing.T, db *pgtest.DB, query string, args ...any) T {
	t.Helper()
	var value T
	if err := db.Pool().QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// ways are Enqueue and EnqueueSQL, each in a transaction of its own.
var ways = map[string]func(*testing.T, *pgtest.DB, ...Item) ([]Receipt, error){
	"pgx": func(t *testing.T, db *pgtest.DB, items ...Item) ([]Receipt, error) {
		tx := begin(t, db)
		receipts, err := Enqueue(t.Context(), tx, items...)
		commit(t, tx)
		return receipts, err
	},
	"pgx, simple protocol": func(t *testing.T, db *pgtest.DB, items ...Item) ([]Receipt, error) {
		config := db.Pool().Config().ConnConfig
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // as behind a pooler
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		receipts, err := Enqueue(t.Context(), tx, items...)
		commit(t, tx)
		return receipts, err
	},
	"database/sql": func(t *testing.T, db *pgtest.DB, items ...Item) ([]Receipt, error) {
		pool := stdlib.OpenDBFromPool(db.Pool())
		defer pool.Close()
		tx, err := pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		receipts, err := EnqueueSQL(t.Context(), tx, items...)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		return receipts, err
	},
}

func TestEnqueue(t *testing.T) {
	for name, enqueue := range ways {
		t.Run(name, func(t *testing.T) {
			db := pgtest.Migrated(t)
			first, err := enqueue(t, db, usage("usage:1"), usage("usage:2"))
			if err != nil {
				t.Fatal(err)
			}
			second, err := enqueue(t, db, usage("usage:3"), usage("usage:2"), usage("usage:4"))
			if err != nil {
				t.Fatal(err)
			}
			if first[0].ID >= first[1].ID || second[0].ID >= second[2].ID {
				t.Errorf("ids must rise in the order of the items: %v, %v", first, second)
			}
			if first[0].Existing || first[1].Existing || second[0].Existing || second[2].Existing {
				t.Errorf("new items are said to exist: %v, %v", first, second)
			}
			want := first[1]
			want.Existing = true
			if second[1] != want {
				t.Errorf("want the existing item %v, got %v", want, second[1])
			}
			if n := one[int](t, db, `SELECT count(*) FROM weir.items WHERE state = 'pending'`); n != 4 {
				t.Errorf("want 4 pending items, got %d", n)
			}
			if id := one[string](t, db, `SELECT identifier FROM weir.items WHERE id = $1`, first[0].ID); id != first[0].Identifier {
				t.Errorf("want the identifier of weir.items %s, got %s", id, first[0].Identifier)
			}
		})
	}
}

func TestEnqueueNothing(t *testing.T) {
	for name, enqueue := range ways {
		t.Run(name, func(t *testing.T) {
			receipts, err := enqueue(t, pgtest.Migrated(t))
			if err != nil || len(receipts) != 0 {
				t.Errorf("want nothing, got %v, %v", receipts, err)
			}
		})
	}
}

func TestEnqueueEveryField(t *testing.T) {
	for name, enqueue := range ways {
		t.Run(name, func(t *testing.T) {
			db := pgtest.Migrated(t)
			_, err := enqueue(t, db, Item{"t", "correction", "r", "webhook", "acct_1", "live", "v2", json.RawMessage(`{"a":1}`),
				"key", "source", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "attribution_unresolved"}, usage("usage:2"))
			if err != nil {
				t.Fatal(err)
			}
			got := one[string](t, db, `SELECT concat_ws(' ', tenant_key, subject_kind, subject_ref, exporter, destination_account, mode,
				mapping_version, payload, order_key, source, traceparent, quarantine_reason, state) FROM weir.items ORDER BY id LIMIT 1`)
			const want = `t correction r webhook acct_1 live v2 {"a": 1} key source ` +
				`00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 attribution_unresolved quarantined`
			if got != want {
				t.Errorf("want %s\n got %s", want, got)
			}
			// What was left out is NULL, not an empty text.
			if n := one[int](t, db, `SELECT num_nulls(order_key, source, traceparent, quarantine_reason) FROM weir.outbox ORDER BY id DESC LIMIT 1`); n != 4 {
				t.Errorf("want 4 nulls, got %d", n)
			}
		})
	}
}

func TestEnqueueRollsBackWithTheCaller(t *testing.T) {
	db := pgtest.Migrated(t)
	tx := begin(t, db)
	mustEnqueue(t, tx, usage("usage:1"))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, db, `SELECT (SELECT count(*) FROM weir.outbox) + (SELECT count(*) FROM weir.deliveries)`); n != 0 {
		t.Errorf("want no row of a transaction that rolled back, got %d", n)
	}
}

// A changed payload under a known identifier would be dropped by the provider too. // lesson 25
func TestPayloadMismatch(t *testing.T) {
	for name, enqueue := range ways {
		t.Run(name, func(t *testing.T) {
			db := pgtest.Migrated(t)
			first, err := enqueue(t, db, usage("usage:1"))
			if err != nil {
				t.Fatal(err)
			}
			changed := usage("usage:1")
			changed.Payload = map[string]string{"value": "13"}
			receipts, err := enqueue(t, db, usage("usage:2"), changed, usage("usage:3"))

			if !errors.Is(err, ErrPayloadMismatch) {
				t.Fatalf("want ErrPayloadMismatch, got %v", err)
			}
			var mismatch *PayloadMismatchError
			if !errors.As(err, &mismatch) || len(mismatch.Items) != 1 {
				t.Fatalf("want one item in a *PayloadMismatchError, got %v", err)
			}
			if want := (Mismatch{1, first[0].ID, "usage:1", first[0].Identifier}); mismatch.Items[0] != want {
				t.Errorf("want %v, got %v", want, mismatch.Items[0])
			}
			if !strings.Contains(err.Error(), "item 1 (usage:1, id ") {
				t.Errorf("the error must name the item: %v", err)
			}
			if len(receipts) != 3 || receipts[1].ID != first[0].ID || !receipts[1].Existing {
				t.Errorf("want all receipts, got %v", receipts)
			}
			// The transaction was usable: it has committed the two others.
			if n := one[int](t, db, `SELECT count(*) FROM weir.items`); n != 3 {
				t.Errorf("want 3 items, got %d", n)
			}
			if v := one[string](t, db, `SELECT payload->>'value' FROM weir.items WHERE subject_ref = 'usage:1'`); v != "12.5" {
				t.Errorf("the first payload must stand, got %s", v)
			}
		})
	}
}

func TestPayloadMismatchErrorIsShort(t *testing.T) {
	e := &PayloadMismatchError{make([]Mismatch, 1000)}
	if text := e.Error(); len(text) > 300 || !strings.Contains(text, "and 997 more") {
		t.Errorf("want a short error, got %s", text)
	}
}

func TestDuplicatesInOneTransaction(t *testing.T) {
	same, other := usage("usage:1"), usage("usage:1")
	same.Payload = json.RawMessage(`{ "value": "12.50", "meter": "api_requests", "customer": "cus_1", "n": 1.0 }`)
	other.Payload = json.RawMessage(`{"value": "13"}`)
	first := usage("usage:1")
	first.Payload = json.RawMessage(`{"customer":"cus_1","meter":"api_requests","value":"12.50","n":1}`)

	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			tx := beginAt(t, pgtest.Migrated(t), level)
			receipts := mustEnqueue(t, tx, first, usage("usage:2"), same)
			if receipts[2].ID != receipts[0].ID || receipts[0].Existing || !receipts[2].Existing {
				t.Errorf("want one row for two equal items, the second existing, got %v", receipts)
			}
			later := mustEnqueue(t, tx, same)
			if later[0] != receipts[2] {
				t.Errorf("want the row of the earlier call %v, got %v", receipts[2], later[0])
			}

			receipts, err := Enqueue(t.Context(), tx, usage("usage:3"), other, same)
			var mismatch *PayloadMismatchError
			if !errors.As(err, &mismatch) || len(mismatch.Items) != 1 || mismatch.Items[0].Index != 1 {
				t.Errorf("want a mismatch of item 1, got %v", err)
			}
			if len(receipts) != 3 || receipts[0].Existing || receipts[2] != later[0] {
				t.Errorf("want all receipts, got %v", receipts)
			}
			both := mustMismatch(t, tx, usage("usage:4"), with(func(it *Item) { it.SubjectRef, it.Payload = "usage:4", other.Payload }))
			if both.Items[0].Index != 1 {
				t.Errorf("want the first of two to stand, got %v", both.Items)
			}
		})
	}
}

func mustMismatch(t *testing.T, tx pgx.Tx, items ...Item) *PayloadMismatchError {
	t.Helper()
	_, err := Enqueue(t.Context(), tx, items...)
	var mismatch *PayloadMismatchError
	if !errors.As(err, &mismatch) || len(mismatch.Items) != 1 {
		t.Fatalf("want one mismatch, got %v", err)
	}
	return mismatch
}

func TestInvalidItemSendsNothing(t *testing.T) {
	db := pgtest.Migrated(t)
	tx := begin(t, db)
	bad := usage("usage:2")
	bad.Mode = "prod"
	_, err := Enqueue(t.Context(), tx, usage("usage:1"), bad)
	var field *FieldError
	if !errors.As(err, &field) || !strings.Contains(err.Error(), "item 1: mode ") {
		t.Errorf("want an error that names item 1 and its mode, got %v", err)
	}
	commit(t, tx)
	if n := one[int](t, db, `SELECT count(*) FROM weir.outbox`); n != 0 {
		t.Errorf("want no item of an invalid call, got %d", n)
	}
}

// jsonb keeps numbers as numeric: no digit is lost on the way.
// lesson "numeric and time"
func TestPayloadIsExact(t *testing.T) {
	db := pgtest.Migrated(t)
	const exact = "123456789012345678901234567890.123456789012345678901234567890100"
	for name, enqueue := range ways {
		t.Run(name, func(t *testing.T) {
			it := usage("exact:" + name)
			it.Payload = json.RawMessage(`{"value":` + exact + `}`)
			receipts, err := enqueue(t, db, it)
			if err != nil {
				t.Fatal(err)
			}
			if got := one[string](t, db, `SELECT payload->>'value' FROM weir.outbox WHERE id = $1`, receipts[0].ID); got != exact {
				t.Errorf("want %s, got %s", exact, got)
			}
		})
	}
}

// A run that answers nothing must not go on for ever.
func TestRunsAreBounded(t *testing.T) {
	n := 0
	_, err := enqueue([]Item{usage("usage:1")}, func(string, func(scan) error) error { n++; return nil })
	if err == nil || n != runs || !strings.Contains(err.Error(), "item 0 (usage:1)") {
		t.Errorf("want an error that names the item after %d runs, got %v after %d", runs, err, n)
	}
}

func TestManyItems(t *testing.T) {
	db := pgtest.Migrated(t)
	items := make([]Item, 3000)
	for i := range items {
		items[i] = usage(fmt.Sprint("usage:", i))
	}
	tx := begin(t, db)
	receipts := mustEnqueue(t, tx, items...)
	for i := 1; i < len(receipts); i++ {
		if receipts[i].ID <= receipts[i-1].ID {
			t.Fatalf("ids must rise in the order of the items: %v, %v", receipts[i-1], receipts[i])
		}
	}
	commit(t, tx)
}

// The privileges that doc.go promises are enough.
func TestProducersPrivileges(t *testing.T) {
	db := pgtest.Migrated(t)
	role := pgx.Identifier{"producer_" + db.Name()}.Sanitize()
	db.Exec(t, `CREATE ROLE `+role)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		db.Pool().Exec(ctx, `DROP OWNED BY `+role)
		if _, err := db.Pool().Exec(ctx, `DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	db.Exec(t, `GRANT USAGE ON SCHEMA weir TO `+role)
	db.Exec(t, `GRANT INSERT, SELECT (id, identity, payload) ON weir.outbox TO `+role)
	tx := begin(t, db)
	if _, err := tx.Exec(t.Context(), `SET LOCAL ROLE `+role); err != nil {
		t.Fatal(err)
	}
	mustEnqueue(t, tx, usage("usage:1"))
	mustEnqueue(t, tx, usage("usage:1"))
}
