package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weir-relay/weir/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// handle runs First in a transaction of its own, which commits unless effect fails.
func handle(ctx context.Context, db *pgtest.DB, consumer, message string, effect error) (first bool, err error) {
	err = pgx.BeginFunc(ctx, db.Pool(), func(tx pgx.Tx) error {
		first, err = First(ctx, tx, consumer, message)
		return errors.Join(err, effect)
	})
	return first, err
}

func mustHandle(t *testing.T, db *pgtest.DB, consumer, message string, want bool) {
	t.Helper()
	first, err := handle(t.Context(), db, consumer, message, nil)
	if err != nil {
		t.Fatal(err)
	}
	if first != want {
		t.Errorf("%s of %s: want first %v, got %v", message, consumer, want, first)
	}
}

func TestFirst(t *testing.T) {
	db := pgtest.Migrated(t)
	mustHandle(t, db, "invoices", "evt_1", true)
	mustHandle(t, db, "invoices", "evt_1", false)
	mustHandle(t, db, "invoices", "evt_1", false) // replays stay replays
	mustHandle(t, db, "invoices", "evt_2", true)
	mustHandle(t, db, "mails", "evt_1", true) // each consumer has its own
}

func TestFirstSQL(t *testing.T) {
	db := pgtest.Migrated(t)
	pool := stdlib.OpenDBFromPool(db.Pool())
	defer pool.Close()
	for _, want := range []bool{true, false} {
		tx, err := pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if first, err := FirstSQL(t.Context(), tx, "invoices", "evt_1"); err != nil || first != want {
			t.Errorf("want %v, got %v, %v", want, first, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	mustHandle(t, db, "invoices", "evt_1", false) // one record for both ways
}

func TestFirstTwiceInOneTransaction(t *testing.T) {
	db := pgtest.Migrated(t)
	err := pgx.BeginFunc(t.Context(), db.Pool(), func(tx pgx.Tx) error {
		for _, want := range []bool{true, false} {
			if first, err := First(t.Context(), tx, "invoices", "evt_1"); err != nil || first != want {
				t.Errorf("want %v, got %v, %v", want, first, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRollbackMakesItFirstAgain(t *testing.T) {
	db := pgtest.Migrated(t)
	broken := errors.New("the effect failed")
	if first, err := handle(t.Context(), db, "invoices", "evt_1", broken); !first || !errors.Is(err, broken) {
		t.Fatalf("want the first, and the effect's error; got %v, %v", first, err)
	}
	mustHandle(t, db, "invoices", "evt_1", true)
	mustHandle(t, db, "invoices", "evt_1", false)
}

func TestFirstRefusesEmptyNames(t *testing.T) {
	db := pgtest.Migrated(t)
	for _, names := range [][2]string{{"", "evt_1"}, {"invoices", ""}} {
		if first, err := handle(t.Context(), db, names[0], names[1], nil); err == nil || first {
			t.Errorf("%q: want an error, got %v", names, first)
		}
	}
}

// Many deliveries of many messages at once, some of whose effects fail: each takes effect once.
func TestConcurrentDeliveries(t *testing.T) {
	const messages, deliveries = 20, 8
	db := pgtest.Migrated(t)
	var effects [messages]atomic.Int32
	var all sync.WaitGroup
	for d := range deliveries {
		all.Go(func() {
			for m := range messages {
				var effect error
				if (d+m)%3 == 0 {
					effect = errors.New("the effect failed")
				}
				first, err := handle(t.Context(), db, "invoices", fmt.Sprint("evt_", m), effect)
				switch {
				case err == nil && first:
					effects[m].Add(1)
				case err != nil && effect == nil:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for m := range effects {
		if n := effects[m].Load(); n != 1 {
			t.Errorf("message %d took effect %d times", m, n)
		}
	}
}

// A second delivery waits for the end of the first, and what it answers depends on that end.
func TestSecondDeliveryWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		level pgx.TxIsoLevel
		end   func(pgx.Tx, context.Context) error
		first bool
		code  string
	}{
		"first commits":     {pgx.ReadCommitted, pgx.Tx.Commit, false, ""},
		"first rolls back":  {pgx.ReadCommitted, pgx.Tx.Rollback, true, ""},
		"repeatable read":   {pgx.RepeatableRead, pgx.Tx.Commit, false, "40001"},
		"rolled back there": {pgx.RepeatableRead, pgx.Tx.Rollback, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.Migrated(t)
			a, b := begin(t, db, pgx.ReadCommitted), begin(t, db, tt.level)
			if _, err := b.Exec(t.Context(), `SELECT 1`); err != nil { // takes the snapshot of REPEATABLE READ
				t.Fatal(err)
			}
			if first, err := First(t.Context(), a, "invoices", "evt_1"); err != nil || !first {
				t.Fatalf("want the first, got %v, %v", first, err)
			}
			type answer struct {
				first bool
				err   error
			}
			second := make(chan answer, 1)
			go func() {
				first, err := First(t.Context(), b, "invoices", "evt_1")
				second <- answer{first, err}
			}()
			pgtest.Eventually(t, 10*time.Second, func() bool {
				return one[bool](t, db.Pool(), `SELECT EXISTS (SELECT FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock')`)
			})
			if err := tt.end(a, t.Context()); err != nil {
				t.Fatal(err)
			}
			got := <-second
			code := ""
			if pg := new(pgconn.PgError); errors.As(got.err, &pg) {
				code = pg.Code
			}
			if got.first != tt.first || code != tt.code {
				t.Errorf("want %v and SQLSTATE %q, got %v, %v", tt.first, tt.code, got.first, got.err)
			}
		})
	}
}

func TestForget(t *testing.T) {
	for name, as := range map[string]func(*testing.T, *pgtest.DB, func(Querier)){
		"pool": func(t *testing.T, db *pgtest.DB, do func(Querier)) { do(db.Pool()) },
		"transaction": func(t *testing.T, db *pgtest.DB, do func(Querier)) {
			tx := begin(t, db, pgx.ReadCommitted)
			do(tx)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.Migrated(t)
			// 25 old and 25 new ones of one consumer, mixed, and as many of another.
			db.Exec(t, `INSERT INTO weir.inbox (consumer, message_id, received_at)
				SELECT c, 'evt_' || n, clock_timestamp() - CASE WHEN n % 2 = 0 THEN interval '8 days' ELSE interval '6 days' END
				  FROM generate_series(1, 50) n, (VALUES ('invoices'), ('mails')) c(c)`)
			as(t, db, func(q Querier) {
				for _, want := range []int64{25, 0} {
					n, err := walk(t.Context(), q, "invoices", 7*24*time.Hour, 7)
					if err != nil || n != want {
						t.Errorf("want %d forgotten, got %d, %v", want, n, err)
					}
				}
			})
			if n := one[int](t, db.Pool(), `SELECT count(*) FROM weir.inbox WHERE consumer = 'mails'`); n != 50 {
				t.Errorf("want the other consumer's 50 records untouched, got %d", n)
			}
			mustHandle(t, db, "invoices", "evt_1", false) // young: remembered
			mustHandle(t, db, "invoices", "evt_2", true)  // old: forgotten
		})
	}
}

func TestForgetRefusesWhatForgetsEverything(t *testing.T) {
	db := pgtest.Migrated(t)
	mustHandle(t, db, "invoices", "evt_1", true)
	for _, age := range []time.Duration{-time.Hour, 0, time.Millisecond} {
		if _, err := Forget(t.Context(), db.Pool(), "invoices", age); err == nil {
			t.Errorf("%v: want an error", age)
		}
	}
	if _, err := Forget(t.Context(), db.Pool(), "", time.Hour); err == nil {
		t.Error("no consumer: want an error")
	}
	if n, err := Forget(t.Context(), db.Pool(), "invoices", time.Hour); err != nil || n != 0 {
		t.Errorf("want nothing forgotten, got %d, %v", n, err)
	}
	mustHandle(t, db, "invoices", "evt_1", false)
}

func TestForgetWhileDelivered(t *testing.T) {
	db := pgtest.Migrated(t)
	held := begin(t, db, pgx.ReadCommitted) // an uncommitted record must not stop Forget
	if _, err := First(t.Context(), held, "invoices", "evt_1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if n, err := Forget(ctx, db.Pool(), "invoices", time.Hour); err != nil || n != 0 {
		t.Errorf("want nothing forgotten, got %d, %v", n, err)
	}
}

func begin(t *testing.T, db *pgtest.DB, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := db.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func one[T any](t *testing.T, pool *pgxpool.Pool, query string) T {
	t.Helper()
	var value T
	if err := pool.QueryRow(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}
