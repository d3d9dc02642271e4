package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

func TestDuplicatesInOneCall(t *testing.T) {
	db := pgtest.Migrated(t)
	same, other := usage("usage:1"), usage("usage:1")
	same.Payload = json.RawMessage(`{ "value": "12.5", "meter": "api_requests", "customer": "cus_1" }`)
	other.Payload = json.RawMessage(`{"value": "13"}`)

	receipts := mustEnqueue(t, begin(t, db), usage("usage:1"), usage("usage:2"), same)
	if receipts[2].ID != receipts[0].ID || receipts[0].Existing || !receipts[2].Existing {
		t.Errorf("want one row for two equal items, the second existing, got %v", receipts)
	}

	_, err := Enqueue(t.Context(), begin(t, pgtest.Migrated(t)), usage("usage:1"), other)
	var mismatch *PayloadMismatchError
	if !errors.As(err, &mismatch) || len(mismatch.Items) != 1 || mismatch.Items[0].Index != 1 {
		t.Errorf("want a mismatch of item 1, got %v", err)
	}
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

func TestIdentifierIsWhatPostgresComputes(t *testing.T) {
	db := pgtest.Migrated(t)
	items := []Item{
		usage("plain"),
		with(func(it *Item) { it.SubjectRef = `back\slash \x41 \101 \\ \n` }),
		with(func(it *Item) { it.TenantKey = "Zoë 😀 ﷽ e\u0301" }),
		with(func(it *Item) { it.DestinationAccount = "acct_1" }),
		with(func(it *Item) {
			it.SubjectKind, it.Exporter, it.Mode, it.MappingVersion = "correction", "webhook", "live", "v2"
		}),
		with(func(it *Item) { it.SubjectRef = "\x01 \x1e ' \" \r\n\t" }),
	}
	tx := begin(t, db)
	for i, r := range mustEnqueue(t, tx, items...) {
		var want string
		if err := tx.QueryRow(t.Context(), `SELECT 'weir_' || encode(identity, 'hex') FROM weir.outbox WHERE id = $1`, r.ID).Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got := Identifier(items[i]); got != want || r.Identifier != want || len(got) != 69 {
			t.Errorf("%q: want %s, got %s and the receipt's %s", items[i].SubjectRef, want, got, r.Identifier)
		}
	}
}

func TestIdentifierOfDefaults(t *testing.T) {
	spelled := with(func(it *Item) { it.SubjectKind, it.Exporter = "usage", "stripe" })
	if Identifier(usage("usage:1")) != Identifier(spelled) {
		t.Error("a default and its spelled value are one identity")
	}
	rest := with(func(it *Item) {
		it.Payload, it.OrderKey, it.Source, it.Traceparent, it.QuarantineReason = nil, "o", "s", "t", "q"
	})
	if Identifier(usage("usage:1")) != Identifier(rest) {
		t.Error("nothing but the seven takes part in the identity")
	}
}

// blocked waits until a connection of the database waits for another transaction.
func blocked(t *testing.T, db *pgtest.DB) {
	t.Helper()
	pgtest.Eventually(t, 10*time.Second, func() bool {
		return one[bool](t, db, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
	})
}

type result struct {
	receipts []Receipt
	err      error
}

// race enqueues item in a second transaction while the first holds it, and ends the first by end.
func race(t *testing.T, level pgx.TxIsoLevel, item Item, end func(pgx.Tx)) (first Receipt, second result) {
	t.Helper()
	db := pgtest.Migrated(t)
	a, b := begin(t, db), beginAt(t, db, level)
	if _, err := b.Exec(t.Context(), `SELECT 1`); err != nil { // takes the snapshot of REPEATABLE READ
		t.Fatal(err)
	}
	first = mustEnqueue(t, a, usage("usage:1"))[0]
	done := make(chan result, 1)
	go func() {
		receipts, err := Enqueue(t.Context(), b, usage("usage:0"), item)
		done <- result{receipts, err}
	}()
	blocked(t, db)
	end(a)
	second = <-done
	return first, second
}

func TestTwoProducersAtOnce(t *testing.T) {
	toCommit := func(tx pgx.Tx) { commit(t, tx) }

	t.Run("first commits", func(t *testing.T) {
		first, second := race(t, pgx.ReadCommitted, usage("usage:1"), toCommit)
		if second.err != nil {
			t.Fatal(second.err)
		}
		first.Existing = true
		if second.receipts[1] != first || second.receipts[0].Existing {
			t.Errorf("want the other producer's row %v, got %v", first, second.receipts)
		}
	})
	t.Run("first commits another payload", func(t *testing.T) {
		other := usage("usage:1")
		other.Payload = map[string]string{"value": "13"}
		_, second := race(t, pgx.ReadCommitted, other, toCommit)
		if !errors.Is(second.err, ErrPayloadMismatch) {
			t.Errorf("want ErrPayloadMismatch, got %v", second.err)
		}
	})
	t.Run("first rolls back", func(t *testing.T) {
		first, second := race(t, pgx.ReadCommitted, usage("usage:1"), func(tx pgx.Tx) {
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if second.err != nil || second.receipts[1].Existing || second.receipts[1].ID == first.ID {
			t.Errorf("want a row of its own, got %v", second)
		}
	})
	t.Run("repeatable read", func(t *testing.T) {
		_, second := race(t, pgx.RepeatableRead, usage("usage:1"), toCommit)
		var pg *pgconn.PgError
		if !errors.As(second.err, &pg) || pg.Code != "40001" {
			t.Errorf("want a serialization failure, got %v", second.err)
		}
	})
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
