package pgtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-relay/weir/internal/postgres"
)

func TestMain(m *testing.M) { Main(m) }

func TestEachTestHasItsOwnDatabase(t *testing.T) {
	for range 2 {
		t.Run("same name", func(t *testing.T) {
			t.Parallel()
			db := New(t)
			db.Exec(t, "CREATE TABLE only_here (id int)")
			db.Exec(t, "INSERT INTO only_here VALUES ($1)", 1)
		})
	}
}

func TestMigratedHasWeirsSchema(t *testing.T) {
	for range 2 { // from the same template
		var found bool
		db := Migrated(t)
		err := db.Pool().QueryRow(t.Context(), "SELECT to_regclass('weir.deliveries') IS NOT NULL").Scan(&found)
		if err != nil || !found {
			t.Errorf("weir.deliveries: want it, got %v, %v", found, err)
		}
	}
}

func TestDropsDatabaseWithSlotInUse(t *testing.T) {
	var db *DB
	var walsender *pgconn.PgConn
	t.Run("user", func(t *testing.T) {
		db = New(t)
		var err error
		walsender, err = pgconn.Connect(t.Context(), db.URL()+"&replication=database")
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{
			"CREATE_REPLICATION_SLOT " + db.Name() + " LOGICAL pgoutput",
			"CREATE_REPLICATION_SLOT " + db.Name() + "_t TEMPORARY LOGICAL pgoutput",
		} {
			if _, err := walsender.Exec(t.Context(), command).ReadAll(); err != nil {
				t.Fatalf("%s: %v", command, err)
			}
		}
	})
	defer walsender.Close(context.WithoutCancel(t.Context()))
	var left int
	err := db.server.admin.QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM pg_database WHERE datname = $1) + (SELECT count(*) FROM pg_replication_slots WHERE database = $1)", db.Name()).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("databases and slots left: want 0, got %d, %v", left, err)
	}
}

func TestCluster(t *testing.T) {
	c := Cluster(t, postgres.Options{})
	if err := c.Crash(); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), c.URL("postgres")); err == nil {
		t.Error("connected to a crashed server")
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestEventually(t *testing.T) {
	asked := 0
	Eventually(t, time.Minute, func() bool { asked++; return asked == 3 })
	Eventually(t, time.Minute, func() error {
		if asked++; asked < 6 {
			return errors.New("not yet")
		}
		return nil
	})
	if asked != 6 {
		t.Errorf("want the condition asked 6 times, got %d", asked)
	}
}

// A failure is recorded and ends only the goroutine that it happens in.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestEventuallyFailsWithTheLastError(t *testing.T) {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Eventually(r, time.Millisecond, func() error { return errors.New("still 3 pending") })
	}()
	<-done
	if want := "not within 1ms: still 3 pending"; r.failure != want {
		t.Errorf("want %q, got %q", want, r.failure)
	}
}

func TestModes(t *testing.T) {
	tests := map[string]struct{ mode, url, err string }{
		"url":     {mode: "postgres://u@h/postgres", url: "postgres://u@h/postgres"},
		"unknown": {mode: "lokal", err: `got "lokal"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			url, _, err := provide(t.Context(), tt.mode)
			if url != tt.url || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("want %q, %q, got %q, %v", tt.url, tt.err, url, err)
			}
		})
	}
}
