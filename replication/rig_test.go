package replication

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/internal/postgres"
	"github.com/weir-relay/weir/migrations"
)

// patience bounds every wait of a test; one that is reached has failed.
const patience = 20 * time.Second

// rig is a stream on a real server.
type rig struct {
	t      *testing.T
	url    string
	pool   *pgxpool.Pool
	config Config
	ledger *memory
	log    *transcript
	stream *Stream
	cancel context.CancelFunc
	done   chan error
}

// setUp makes a rig that has not started, in a database of its own.
func setUp(t *testing.T) *rig {
	t.Helper()
	db := pgtest.Migrated(t)
	return newRig(t, db.URL(), db.Pool(), db.Name())
}

// setUpCluster makes a rig that has not started, on a server of its own.
func setUpCluster(t *testing.T, settings map[string]string) (*rig, *postgres.Cluster) {
	t.Helper()
	c := pgtest.Cluster(t, postgres.Options{Settings: settings})
	url := c.URL("postgres")
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return newRig(t, url, pool, "weir"), c
}

func newRig(t *testing.T, url string, pool *pgxpool.Pool, slot string) *rig {
	ledger := &memory{url: url}
	return &rig{
		t: t, url: url, pool: pool, ledger: ledger, log: &transcript{ledger: ledger},
		config: Config{
			URL:              url,
			Slot:             slot,
			StatusInterval:   50 * time.Millisecond,
			WalSenderTimeout: 5 * time.Second,
			BackoffMin:       20 * time.Millisecond,
			BackoffMax:       200 * time.Millisecond,
			Logger:           slog.New(slog.NewTextHandler(t.Output(), nil)),
		},
	}
}

// start runs the stream and returns at once.
func (r *rig) start() *rig {
	r.t.Helper()
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(r.t.Context())
	r.stream = New(r.config, r.log, r.ledger)
	r.done = make(chan error, 1)
	go func() { r.done <- r.stream.Run(ctx) }()
	r.t.Cleanup(func() { r.cancel() })
	return r
}

func (r *rig) streaming() *rig {
	r.t.Helper()
	r.await(Streaming)
	return r
}

func (r *rig) await(mode Mode) {
	r.t.Helper()
	r.eventually(func() error {
		if s := r.stream.Status(); s.Mode != mode {
			return fmt.Errorf("mode is %s (%s), not %s", s.Mode, s.Reason, mode)
		}
		return nil
	})
}

func (r *rig) eventually(condition func() error) {
	r.t.Helper()
	pgtest.Eventually(r.t, patience, condition)
}

// stop ends Run's context and demands that Run answers nil.
func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	if err := r.result(); err != nil {
		r.t.Fatalf("Run after its context: %v", err)
	}
}

// result waits for what Run answers.
func (r *rig) result() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		r.t.Fatalf("Run has not returned; status %+v", r.stream.Status())
		return nil
	}
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatalf("exec %.200s: %v", sql, err)
	}
}

// atEnd runs a statement when the test is over.
func (r *rig) atEnd(sql string, args ...any) {
	r.t.Cleanup(func() {
		if _, err := r.pool.Exec(context.WithoutCancel(r.t.Context()), sql, args...); err != nil {
			r.t.Errorf("exec %s: %v", sql, err)
		}
	})
}

// insert enqueues n items of one exporter in one transaction.
func (r *rig) insert(exporter, prefix string, n int) {
	r.t.Helper()
	r.exec(insertSQL, exporter, prefix, n)
}

const insertSQL = `
INSERT INTO weir.outbox (tenant_key, subject_ref, exporter, mode, mapping_version, payload)
SELECT 'tenant', $2 || '-' || n, $1, 'test', 'v1', '{"value": 1}' FROM generate_series(1, $3::int) n`

const claimSQL = `
UPDATE weir.deliveries
   SET state = 'leased', from_state = state, lease_owner = 'w', lease_expires_at = now() + interval '1 minute',
       lease_token = lease_token + 1, attempts = attempts + 1, first_attempt_at = now()
 WHERE state = 'pending'`

// wants waits until the transcript is exactly this.
func (r *rig) wants(lines ...string) {
	r.t.Helper()
	r.eventually(func() error {
		if got := r.log.copy(); !slices.Equal(got, lines) {
			return fmt.Errorf("transcript:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
		}
		return nil
	})
}

// counted waits until the ledger has counted what the table holds.
func (r *rig) counted() {
	r.t.Helper()
	r.countedOn(r.url)
}

func (r *rig) countedOn(url string) {
	r.t.Helper()
	r.eventually(func() error {
		want, err := countAt(r.t.Context(), url, "", "")
		if err != nil {
			return err
		}
		if got := r.ledger.tally(); !got.Equal(want) {
			return fmt.Errorf("ledger has %v, the table %v", got.Nested(), want.Nested())
		}
		return nil
	})
}

func (r *rig) slot() SlotInfo {
	r.t.Helper()
	info, err := Inspect(r.t.Context(), r.pool, r.config.Slot)
	if err != nil {
		r.t.Fatal(err)
	}
	return info
}

// walPosition is where the server writes now.
func (r *rig) walPosition() LSN {
	r.t.Helper()
	var at int64
	if err := r.pool.QueryRow(r.t.Context(), `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&at); err != nil {
		r.t.Fatal(err)
	}
	return LSN(at)
}

// openTransaction begins a transaction that has an xid, after a statement, and answers how to end it.
func (r *rig) openTransaction(before string) (commit func()) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close(context.WithoutCancel(r.t.Context())) })
	if _, err := conn.Exec(r.t.Context(), before+"; BEGIN; SELECT pg_current_xact_id()"); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(r.t.Context(), "COMMIT"); err != nil {
			r.t.Fatal(err)
		}
	}
}
