package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is one test's database.
type DB struct {
	server *server
	name   string
	pool   *pgxpool.Pool
}

// New makes an empty database, dropped when the test ends.
func New(t testing.TB) *DB {
	t.Helper()
	return create(t, sharedServer(t), "template1")
}

// Migrated makes a database with weir's schema, dropped when the test ends.
func Migrated(t testing.TB) *DB {
	t.Helper()
	s := sharedServer(t)
	template, err := s.tmpl()
	if err != nil {
		t.Fatalf("pgtest: migrate template: %v", err)
	}
	return create(t, s, template)
}

// Name is the database's name. It is unique on the server, and short and plain
// enough to name a slot or an application after.
func (db *DB) Name() string { return db.name }

// URL is a connection string; it suits a replication connection too.
func (db *DB) URL() string { return withDatabase(db.server.url, db.name) }

// Pool is the test's own pool, closed when the test ends.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Exec runs one statement, or fails the test.
func (db *DB) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := db.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("exec %s: %v", sql, err)
	}
}

func create(t testing.TB, s *server, template string) *DB {
	t.Helper()
	db := &DB{server: s, name: uniqueName(t.Name())}
	ctx, cancel := context.WithTimeout(t.Context(), operationTimeout)
	defer cancel()
	if _, err := s.admin.Exec(ctx, "CREATE DATABASE "+identifier(db.name)+" TEMPLATE "+identifier(template)); err != nil {
		t.Fatalf("pgtest: create database: %v", err)
	}
	t.Cleanup(func() { db.drop(t) })
	var err error
	if db.pool, err = pgxpool.New(t.Context(), db.URL()); err != nil {
		t.Fatalf("pgtest: open pool: %v", err)
	}
	return db
}

func (db *DB) drop(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), operationTimeout)
	defer cancel()
	if db.pool != nil && !closed(db.pool) {
		t.Errorf("pgtest: a connection of Pool() was never released: close its rows or end its transaction")
	}
	if err := db.server.drop(ctx, db.name); err != nil {
		t.Errorf("pgtest: drop database %s: %v", db.name, err)
	}
}

// closed says whether the pool could be closed soon: Close waits for every
// connection that is in use.
func closed(pool *pgxpool.Pool) bool {
	done := make(chan struct{})
	go func() { pool.Close(); close(done) }()
	patience := time.NewTimer(5 * time.Second)
	defer patience.Stop()
	select {
	case <-done:
		return true
	case <-patience.C:
		return false
	}
}

var (
	unplain = regexp.MustCompile(`[^a-z0-9]+`)
	created atomic.Int64
)

// uniqueName tells tests, and test binaries that share a server, apart.
func uniqueName(test string) string {
	plain := strings.Trim(unplain.ReplaceAllString(strings.ToLower(test), "_"), "_")
	return fmt.Sprintf("%.36s_%d_%d", plain, os.Getpid(), created.Add(1))
}

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

func withDatabase(server, database string) string {
	u, err := url.Parse(server)
	if err != nil { // it was connected to before
		panic("pgtest: server URL: " + strconv.Quote(server))
	}
	u.Path = "/" + database
	return u.String()
}
