package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// patience bounds every wait of a test; one that is reached has failed.
const patience = 30 * time.Second

// rig is a database, and one relay's half at a time: a stream, and the book that it tells.
type rig struct {
	t    *testing.T
	url  string
	slot string
	pool *pgxpool.Pool // set up as the relay's
	logs *lines

	every  time.Duration // between two writes; the package's own where a test is about that
	book   *Book
	stream *replication.Stream
	stop   func() // in order
}

func setUp(t *testing.T) *rig {
	t.Helper()
	db := pgtest.Migrated(t)
	return newRig(t, db.URL(), db.Name())
}

func newRig(t *testing.T, url, slot string) *rig {
	t.Helper()
	pool, err := openPool(t.Context(), url, "rig")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &rig{t: t, url: url, slot: slot, pool: pool, logs: &lines{t: t}, every: 20 * time.Millisecond}
}

func openPool(ctx context.Context, url, name string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	for name, value := range machine.SessionParameters() {
		config.ConnConfig.RuntimeParams[name] = value
	}
	config.ConnConfig.RuntimeParams["application_name"] = name
	config.MaxConns = 16
	return pgxpool.NewWithConfig(ctx, config)
}

func streamConfig(url, slot string, log *slog.Logger) replication.Config {
	return replication.Config{
		URL:              url,
		Slot:             slot,
		StatusInterval:   20 * time.Millisecond,
		WalSenderTimeout: 10 * time.Second,
		BackoffMin:       10 * time.Millisecond,
		BackoffMax:       100 * time.Millisecond,
		Logger:           log,
	}
}

// start makes a new book and streams to it, as a process does that begins. It returns at once.
func (r *rig) start() *rig {
	r.t.Helper()
	log := r.logger()
	r.book = NewBook(r.pool, log)
	r.book.interval = r.every
	r.stream = replication.New(streamConfig(r.url, r.slot, log), r.book, r.book)
	ctx, cancel := context.WithCancel(r.t.Context())
	var writing, streaming sync.WaitGroup
	book, stream := r.book, r.stream
	writing.Go(func() {
		if err := book.Run(ctx); err != nil {
			r.t.Errorf("book.Run: %v", err)
		}
	})
	streaming.Go(func() {
		if err := stream.Run(ctx); err != nil {
			r.t.Errorf("stream.Run: %v", err)
		}
	})
	r.stop = sync.OnceFunc(func() {
		cancel()
		streaming.Wait()
		writing.Wait()
	})
	r.t.Cleanup(r.stop)
	return r
}

func (r *rig) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r.logs, nil)) }

// logged demands that so many lines of the log hold the text.
func (r *rig) logged(text string, want int) error {
	if got := r.logs.count(text); got != want {
		return fmt.Errorf("%d lines say %q, want %d", got, text, want)
	}
	return nil
}

// blocked demands that so many sessions of this database wait for a lock.
func (r *rig) blocked(want int) error {
	var got int
	err := r.pool.QueryRow(r.t.Context(), `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&got)
	if err == nil && got != want {
		err = fmt.Errorf("%d sessions wait for a lock, want %d", got, want)
	}
	return err
}

// streaming waits until the stream is open.
func (r *rig) streaming() *rig {
	r.t.Helper()
	r.eventually(func() error {
		if s := r.stream.Status(); s.Mode != replication.Streaming {
			return fmt.Errorf("mode is %s (%s)", s.Mode, s.Reason)
		}
		return nil
	})
	return r
}

func (r *rig) eventually(condition func() error) {
	r.t.Helper()
	pgtest.Eventually(r.t, patience, condition)
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatalf("exec %.200s: %v", sql, err)
	}
}

// insert commits n items of one exporter.
func (r *rig) insert(exporter, prefix string, n int) {
	r.t.Helper()
	r.exec(insertSQL, exporter, prefix, n)
}

const insertSQL = `
INSERT INTO weir.outbox (tenant_key, subject_ref, exporter, mode, mapping_version, payload)
SELECT 'tenant', $2 || '-' || n, $1, 'test', 'v1', '{"value": 1}' FROM generate_series(1, $3::int) n`

// table counts what is there now.
func (r *rig) table() machine.Counts {
	r.t.Helper()
	counts := machine.Counts{}
	if err := pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error { return Count(r.t.Context(), tx, counts) }); err != nil {
		r.t.Fatal(err)
	}
	return counts
}

// row is the durable row.
func (r *rig) row() View {
	r.t.Helper()
	v, found, err := Load(r.t.Context(), r.pool, r.slot)
	if err != nil || !found {
		r.t.Fatalf("load: found %v, %v", found, err)
	}
	return v
}

// counted waits until the book has the counts of the table, which must be at rest.
func (r *rig) counted() {
	r.t.Helper()
	want, end := r.table(), r.walPosition()
	r.eventually(func() error {
		v, _ := r.book.View()
		if v.At < end {
			return fmt.Errorf("book is at %v, not yet at %v", v.At, end)
		}
		if !v.Counts.Equal(want) {
			return fmt.Errorf("book at %v has %v, the table %v", v.At, v.Counts.Nested(), want.Nested())
		}
		return nil
	})
}

// durable waits until the row has the counts of the table, which must be at rest.
func (r *rig) durable() {
	r.t.Helper()
	want := r.table()
	r.eventually(func() error {
		if v := r.row(); !v.Counts.Equal(want) {
			return fmt.Errorf("row at %v has %v, the table %v", v.At, v.Counts.Nested(), want.Nested())
		}
		return nil
	})
}

// walPosition is up to where the log is flushed, and so can have been read.
func (r *rig) walPosition() replication.LSN {
	r.t.Helper()
	return r.lsn(`SELECT pg_current_wal_flush_lsn()`)
}

// confirmed is what the server was told.
func (r *rig) confirmed() replication.LSN {
	r.t.Helper()
	return r.lsn(`SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1`, r.slot)
}

func (r *rig) lsn(sql string, args ...any) replication.LSN {
	r.t.Helper()
	at, err := queryLSN(r.t.Context(), r.pool, sql, args...)
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return at
}

func queryLSN(ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) (replication.LSN, error) {
	var at int64
	err := pool.QueryRow(ctx, `SELECT coalesce((`+sql+`) - '0/0', 0)::bigint`, args...).Scan(&at)
	return replication.LSN(at), err
}

// begin opens a transaction on a connection of its own.
func (r *rig) begin() pgx.Tx {
	r.t.Helper()
	tx, err := r.pool.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(r.t.Context())) })
	return tx
}

// lines is a log that can be read while it is written.
type lines struct {
	t  *testing.T
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.t.Output().Write(p)
	return l.b.Write(p)
}

// count is how many lines hold the text.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.b.Bytes(), []byte(text))
}
