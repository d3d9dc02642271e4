package outbox

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-relay/weir/internal/pgtest"
)

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
