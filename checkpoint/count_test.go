package checkpoint

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/machine"
)

// Counting reads the whole table in its own order, however the connection is set up, and leaves the
// connection as it was.
func TestCountReadsTheTableInOrder(t *testing.T) {
	r := setUp(t)
	conn, err := r.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	setting := func() (value string) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), `SELECT current_setting('enable_seqscan')`).Scan(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if err := Count(t.Context(), tx, machine.Counts{}); err != nil {
			return err
		}
		if got := setting(); got != "on" {
			t.Errorf("while counting enable_seqscan is %s", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := setting(); got != "off" {
		t.Errorf("afterwards enable_seqscan is %s", got)
	}
}

// A timeout that suits the relay's statements doesn't end a count, which may take minutes: the relay
// would make slot after slot and never stream.
func TestCountOutlivesStatementTimeout(t *testing.T) {
	r := setUp(t)
	r.insert("stripe", "a", 3)
	config := r.pool.Config()
	config.ConnConfig.RuntimeParams["statement_timeout"] = "150ms"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	export, lock := r.begin(), r.begin()
	var snapshot string
	if err := export.QueryRow(t.Context(), `SELECT pg_export_snapshot()`).Scan(&snapshot); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `LOCK TABLE weir.deliveries`); err != nil {
		t.Fatal(err)
	}
	type result struct {
		counts machine.Counts
		err    error
	}
	done := make(chan result, 1)
	go func() {
		counts, err := NewBook(pool, r.logger()).count(t.Context(), snapshot)
		done <- result{counts, err}
	}()
	r.eventually(func() error { return r.blocked(1) })
	wait(t, 400*time.Millisecond)
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || got.counts.Get("stripe", machine.Pending) != 3 {
		t.Errorf("%v, %v", got.counts.Nested(), got.err)
	}
}
