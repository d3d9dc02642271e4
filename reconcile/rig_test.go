package reconcile_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// rig is a database, a Stripe, and what lies between them.
type rig struct {
	*testing.T
	db       *pgtest.DB
	pool     *pgxpool.Pool
	store    *machine.Store
	sandbox  *sandbox.Sandbox
	exporter *stripe.Exporter
	registry *prometheus.Registry
	config   reconcile.Config
	hour     time.Time // a full one, some hours ago
	refs     int
}

// meters have one of each formula.
var meters = []sandbox.Meter{
	{EventName: "tokens"},
	{EventName: "calls", Formula: sandbox.FormulaCount},
	{EventName: "seats", Formula: sandbox.FormulaLast},
	{EventName: "hourly", EventTimeWindow: sandbox.WindowHour},
}

func newRig(t *testing.T, cfg sandbox.Config) *rig {
	t.Helper()
	cfg.Meters = meters
	s := sandbox.New(cfg)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.Close)
	db := pgtest.Migrated(t)
	settings, err := pgxpool.ParseConfig(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range machine.SessionParameters() {
		settings.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store := machine.NewStore(pool, machine.DefaultPolicy())
	e, err := stripe.New(stripe.Config{Key: "sk_test_weir", URL: server.URL, Originals: store})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	metrics, err := reconcile.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{
		T: t, db: db, pool: pool, store: store, sandbox: s, exporter: e, registry: registry,
		config: reconcile.Config{
			DB: pool, Exporter: "stripe", Books: e.Books(), Owner: "test", Metrics: metrics,
			Settle: time.Microsecond, Interval: time.Millisecond, ReadsPerHour: 1_000_000_000,
			Logger: slog.New(slog.DiscardHandler),
		},
		hour: time.Now().UTC().Truncate(time.Hour).Add(-5 * time.Hour),
	}
}

func (r *rig) reconciler() *reconcile.Reconciler {
	r.Helper()
	made, err := reconcile.New(r.config)
	if err != nil {
		r.Fatal(err)
	}
	return made
}

// pass makes one pass.
func (r *rig) pass() {
	r.Helper()
	r.passWith(r.reconciler())
}

func (r *rig) passWith(c *reconcile.Reconciler) {
	r.Helper()
	r.db.Exec(r, `UPDATE weir.reconcilers SET next_pass_at = clock_timestamp()`)
	r.db.Exec(r, `UPDATE weir.drifts SET next_check_at = clock_timestamp()`)
	if _, err := c.Turn(r.Context()); err != nil {
		r.Fatalf("pass: %v", err)
	}
}

// usage is one item to be enqueued.
type usage struct {
	customer, meter, value string
	at                     time.Duration // after the rig's hour
}

func (r *rig) enqueue(u usage) int64 {
	r.Helper()
	payload := fmt.Sprintf(`{"customer": %q, "meter": %q, "value": %q, "timestamp": %d}`, u.customer, u.meter, u.value, r.hour.Add(u.at).Unix())
	return r.insert("usage", payload)
}

func (r *rig) insert(kind, payload string) (id int64) {
	r.Helper()
	r.refs++
	err := r.pool.QueryRow(r.Context(), `
SELECT weir.enqueue('tenant', $1, 'test', '1', $2::jsonb, subject_kind => $3)`, fmt.Sprintf("ref-%d", r.refs), payload, kind).Scan(&id)
	if err != nil {
		r.Fatalf("enqueue: %v", err)
	}
	return id
}

// claim takes the items.
func (r *rig) claim(ids ...int64) []machine.Item {
	r.Helper()
	items, err := r.store.Claim(r.Context(), machine.Claimer{Exporter: "stripe", Owner: "test"}, ids)
	if err != nil || len(items) != len(ids) {
		r.Fatalf("claim %v: got %d, %v", ids, len(items), err)
	}
	return items
}

// deliver sends items, which Stripe must take.
func (r *rig) deliver(items []machine.Item) {
	r.Helper()
	for i, o := range r.exporter.Deliver(r.Context(), items) {
		if o.Kind != exporter.Accepted {
			r.Fatalf("deliver item %d: %+v", items[i].ID, o)
		}
	}
}

func (r *rig) accept(items []machine.Item) {
	r.Helper()
	settles := make([]machine.Acceptance, len(items))
	for i := range items {
		settles[i].Ref = items[i].Ref()
	}
	ids, err := r.store.Accept(r.Context(), settles)
	if err != nil || len(ids) != len(items) {
		r.Fatalf("accept: %v, %v", ids, err)
	}
}

// send takes usage all the way to acceptance.
func (r *rig) send(list ...usage) (ids []int64) {
	r.Helper()
	for _, u := range list {
		ids = append(ids, r.enqueue(u))
	}
	items := r.claim(ids...)
	r.deliver(items)
	r.accept(items)
	return ids
}

// lose makes weir believe that Stripe took the usage.
func (r *rig) lose(u usage) int64 {
	r.Helper()
	id := r.enqueue(u)
	r.accept(r.claim(id))
	return id
}

// doubt leaves an item uncertain, which Stripe got if arrived.
func (r *rig) doubt(u usage, arrived bool) int64 {
	r.Helper()
	id := r.enqueue(u)
	items := r.claim(id)
	if arrived {
		r.deliver(items)
	}
	_, err := r.store.Doubt(r.Context(), []machine.Failure{{Ref: items[0].Ref(), Cause: machine.Cause{Code: "timeout"}}})
	if err != nil {
		r.Fatal(err)
	}
	return id
}

// foreign is usage that somebody else reports.
func (r *rig) foreign(u usage) {
	r.Helper()
	r.refs++
	item := machine.Item{
		ID: int64(1000 + r.refs), Token: 1, Attempts: 1, FirstAttempt: true, Exporter: "stripe", SubjectKind: "usage", Mode: "test", MappingVersion: "1",
		Payload: fmt.Appendf(nil, `{"customer": %q, "meter": %q, "value": %q, "timestamp": %d}`, u.customer, u.meter, u.value, r.hour.Add(u.at).Unix()),
	}
	item.Identity[0], item.Identity[1] = 0xff, byte(r.refs)
	r.deliver([]machine.Item{item})
}

// states checks where items stand.
func (r *rig) states(want machine.State, ids ...int64) {
	r.Helper()
	sights, err := r.store.Look(r.Context(), ids)
	if err != nil || len(sights) != len(ids) {
		r.Fatalf("look: %d, %v", len(sights), err)
	}
	for _, s := range sights {
		if s.State != want {
			r.Errorf("item %d is %s, want %s", s.ID, s.State, want)
		}
	}
}

// drift is the only unresolved one.
func (r *rig) drift() reconcile.Drift {
	r.Helper()
	all := r.drifts()
	if len(all) != 1 {
		r.Fatalf("want one drift, got %d: %+v", len(all), all)
	}
	return all[0]
}

func (r *rig) drifts() []reconcile.Drift {
	r.Helper()
	all, err := reconcile.Drifts(r.Context(), r.pool, "stripe", 100)
	if err != nil {
		r.Fatal(err)
	}
	return all
}

func (r *rig) noDrift() {
	r.Helper()
	if all := r.drifts(); len(all) != 0 {
		r.Errorf("want no drift, got %+v", all)
	}
}

func wantDrift(t testing.TB, d reconcile.Drift, side, expected, found string) {
	t.Helper()
	if d.Side != side || !d.Expected.Equal(decimal.RequireFromString(expected)) || !d.Found.Equal(decimal.RequireFromString(found)) {
		t.Errorf("want %s has more, %s against %s; got %+v", side, expected, found, d)
	}
}

// examine asks as a person does.
func (r *rig) examine(q reconcile.Query) *reconcile.Report {
	r.Helper()
	if q.Reads == 0 {
		q.Reads = 1000
	}
	report, err := r.reconciler().Examine(r.Context(), q)
	if err != nil {
		r.Fatal(err)
	}
	return report
}

// count asks for one number.
func (r *rig) count(sql string, args ...any) (n int64) {
	r.Helper()
	if err := r.pool.QueryRow(context.WithoutCancel(r.Context()), sql, args...).Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}
