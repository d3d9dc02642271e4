package migrations_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func one[T any](t *testing.T, db *pgtest.DB, query string, args ...any) T {
	t.Helper()
	var value T
	if err := db.Pool().QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func status(t *testing.T, url string) string {
	t.Helper()
	versions, err := migrations.Status(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(versions)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUpDownUp(t *testing.T) {
	const (
		none  = `[{"version":1,"name":"weir","applied":false},{"version":2,"name":"reconcile","applied":false}]`
		first = `[{"version":1,"name":"weir","applied":true},{"version":2,"name":"reconcile","applied":false}]`
		all   = `[{"version":1,"name":"weir","applied":true},{"version":2,"name":"reconcile","applied":true}]`
	)
	db := pgtest.New(t)
	for _, step := range []struct {
		name string
		do   func(context.Context, string) error
		want string
	}{
		{"down before any up", migrations.Down, none},
		{"up", migrations.Up, all},
		{"up again", migrations.Up, all},
		{"down", migrations.Down, first},
		{"up from there", migrations.Up, all},
		{"down", migrations.Down, first},
		{"down again", migrations.Down, none},
		{"down from nothing", migrations.Down, none},
		{"up after down", migrations.Up, all},
	} {
		if err := step.do(t.Context(), db.URL()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := status(t, db.URL()); got != step.want {
			t.Errorf("%s: want %s, got %s", step.name, step.want, got)
		}
	}
}

func TestStatusWritesNothing(t *testing.T) {
	db := pgtest.New(t)
	status(t, db.URL())
	if one[bool](t, db, `SELECT to_regnamespace('weir') IS NOT NULL`) {
		t.Error("Status has created the schema")
	}
}

func TestDownLeavesNothing(t *testing.T) {
	db := pgtest.Migrated(t)
	for range migrations.Latest() {
		if err := migrations.Down(t.Context(), db.URL()); err != nil {
			t.Fatal(err)
		}
	}
	left := one[[]string](t, db, `
		SELECT coalesce(array_agg(name), '{}')
		  FROM (SELECT relname FROM pg_class WHERE relnamespace = 'weir'::regnamespace AND relkind IN ('r', 'v', 'S', 'i')
		         UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'weir'::regnamespace
		         UNION ALL SELECT pubname FROM pg_publication) found (name)
		 WHERE name NOT LIKE 'migrations%'`)
	if len(left) != 0 {
		t.Errorf("Down has left %v", left)
	}
}

func TestManyProcessesAtOnce(t *testing.T) {
	db := pgtest.New(t)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := migrations.Up(t.Context(), db.URL()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := one[int](t, db, `SELECT count(*) FROM weir.migrations WHERE version_id = 1`); n != 1 {
		t.Errorf("want the migration to run once, got %d times", n)
	}
}

func TestRefusesOtherEncodings(t *testing.T) {
	db := pgtest.New(t)
	latin := db.Name() + "_latin1"
	quoted := pgx.Identifier{latin}.Sanitize()
	db.Exec(t, `CREATE DATABASE `+quoted+` ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)
	t.Cleanup(func() {
		if _, err := db.Pool().Exec(context.WithoutCancel(t.Context()), `DROP DATABASE `+quoted); err != nil {
			t.Error(err)
		}
	})
	err := migrations.Up(t.Context(), strings.Replace(db.URL(), "/"+db.Name(), "/"+latin, 1))
	if err == nil || !strings.Contains(err.Error(), "encoding is LATIN1") {
		t.Errorf("want an error that names the encoding, got %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	for _, url := range []string{"postgres://%zz", "postgres://nobody@127.0.0.1:1/none?connect_timeout=5"} {
		if err := migrations.Up(t.Context(), url); err == nil || !strings.HasPrefix(err.Error(), "migrate: ") {
			t.Errorf("%s: want an error of migrate, got %v", url, err)
		}
	}
}
