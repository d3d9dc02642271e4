package machine

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/pgtest"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata and the machine that the README quotes")

func TestMain(m *testing.M) { pgtest.Main(m) }

// operator is the person who does what people do in these tests.
var operator = Operator{Actor: "ada", Reason: "looked at it"}

// fixture is a database of the test's own, and a store over connections that are set up as the relay's.
type fixture struct {
	testing.TB
	*Store
	db   *pgtest.DB
	pool *pgxpool.Pool
}

func newFixture(t testing.TB, p Policy) *fixture {
	t.Helper()
	db := pgtest.Migrated(t)
	pool := newPool(t, db.URL())
	return &fixture{t, NewStore(pool, p), db, pool}
}

// clear empties the tables; ids begin at 1 again.
func (f *fixture) clear() {
	f.Helper()
	f.db.Exec(f, `TRUNCATE weir.outbox, weir.deliveries, weir.operations RESTART IDENTITY`)
}

// with is the same database under a subtest.
func (f *fixture) with(t testing.TB) *fixture {
	return &fixture{t, f.Store, f.db, f.pool}
}

func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range SessionParameters() {
		config.ConnConfig.RuntimeParams[name] = value
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// intent is what a producer enqueues, "" being NULL.
type intent struct{ ref, exporter, mapping, orderKey, source, quarantine string }

// enqueue commits one item with the ref.
func (f *fixture) enqueue(ref string) int64 { return f.stage(f.pool, intent{ref: ref}) }

// queryRower is a pool, or a transaction that isn't committed yet.
type queryRower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (f *fixture) stage(db queryRower, in intent) (id int64) {
	f.Helper()
	if in.exporter == "" {
		in.exporter = "stripe"
	}
	if in.mapping == "" {
		in.mapping = "1"
	}
	err := db.QueryRow(f.Context(), `
SELECT weir.enqueue('tenant', $1, 'test', $3, '{"value": 1}', exporter => $2,
                    order_key => nullif($4, ''), source => nullif($5, ''), quarantine_reason => nullif($6, ''))`,
		in.ref, in.exporter, in.mapping, in.orderKey, in.source, in.quarantine).Scan(&id)
	if err != nil {
		f.Fatalf("enqueue %+v: %v", in, err)
	}
	return id
}

// backlog commits n due items in one statement.
func (f *fixture) backlog(n int) {
	f.Helper()
	f.db.Exec(f, `
INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
SELECT 'tenant', 'backlog-' || i, 'test', '1', '{"value": 1}' FROM generate_series(1, $1::int) i`, n)
}

// claimed takes the item, which must be free.
func (f *fixture) claimed(id int64) *Item {
	f.Helper()
	items, err := f.Claim(f.Context(), Claimer{Exporter: "stripe", Owner: "w1"}, []int64{id})
	if err != nil || len(items) != 1 || items[0].ID != id {
		f.Fatalf("claim of item %d: want it, got %v, %v", id, items, err)
	}
	return &items[0]
}

// pass lets the time pass for one item: every time of its row becomes that much older. Nothing but the
// database's clock decides, so this is the same as waiting.
func (f *fixture) pass(id int64, d time.Duration) {
	f.Helper()
	f.force(`
UPDATE weir.deliveries
   SET next_attempt_at = next_attempt_at - $2 * interval '1 second',
       first_attempt_at = first_attempt_at - $2 * interval '1 second',
       lease_expires_at = lease_expires_at - $2 * interval '1 second',
       accepted_at = accepted_at - $2 * interval '1 second',
       confirmed_at = confirmed_at - $2 * interval '1 second',
       abandoned_at = abandoned_at - $2 * interval '1 second'
 WHERE id = $1`, id, d.Seconds())
}

// force runs a statement that the transition trigger would refuse.
func (f *fixture) force(sql string, args ...any) {
	f.Helper()
	err := pgx.BeginFunc(f.Context(), f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(f.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(f.Context(), sql, args...)
		return err
	})
	if err != nil {
		f.Fatalf("force %s: %v", sql, err)
	}
}

// delivery is a row of weir.deliveries.
type delivery struct {
	State           State      `json:"state"`
	From            State      `json:"from_state"`
	Token           int64      `json:"lease_token"`
	Attempts        int        `json:"attempts"`
	Owner           string     `json:"lease_owner"`
	ProviderRef     string     `json:"provider_ref"`
	LastError       string     `json:"last_error"`
	Reason          string     `json:"quarantine_reason"`
	FirstAttemptAt  *time.Time `json:"first_attempt_at"`
	NextAttemptAt   *time.Time `json:"next_attempt_at"`
	LeaseExpiresAt  *time.Time `json:"lease_expires_at"`
	AcceptedAt      *time.Time `json:"accepted_at"`
	ConfirmedAt     *time.Time `json:"confirmed_at"`
	AbandonedAt     *time.Time `json:"abandoned_at"`
	AbandonedBy     string     `json:"abandoned_by"`
	AbandonedReason string     `json:"abandon_reason"`
	whole           string     // every column and the physical version, to see that nothing was written
}

func (f *fixture) row(id int64) (d delivery) {
	f.Helper()
	err := f.pool.QueryRow(f.Context(), `
SELECT to_jsonb(d), to_jsonb(d)::text || d.ctid::text || d.xmin::text FROM weir.deliveries d WHERE id = $1`, id).
		Scan(&d, &d.whole)
	if err != nil {
		f.Fatalf("read item %d: %v", id, err)
	}
	return d
}

// operations lists what people did, oldest first.
func (f *fixture) operations() []string {
	f.Helper()
	rows, err := f.pool.Query(f.Context(), `
SELECT actor || ' ' || action || ' ' || item_id || ' ' || from_state || '>' || to_state || ': ' || reason
  FROM weir.operations ORDER BY id`)
	if err != nil {
		f.Fatal(err)
	}
	done, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.Fatal(err)
	}
	return done
}
