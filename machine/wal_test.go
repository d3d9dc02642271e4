package machine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/internal/postgres"
	"github.com/weir-relay/weir/migrations"
)

// payload is what a Stripe meter event needs.
const payload = `{"customer": "cus_QXg1o8vcGmoR32", "meter": "api_requests", "value": "25", "timestamp": "2026-11-30T12:00:00Z", "feature": "api", "period": "2026-11"}`

// owner is as long as those of relays, host:pid.
const owner = "relay-7d9f8c-abcde:12345"

// Bounds of the log that an item writes in its life: staged by a transaction of its own, claimed and settled
// a hundred at a time. Full page images are left out: they depend on how often the server checkpoints.
func TestLogWrittenPerItem(t *testing.T) {
	c := pgtest.Cluster(t, postgres.Options{Settings: map[string]string{"full_page_writes": "off", "autovacuum": "off"}})
	if err := migrations.Up(t.Context(), c.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, c.URL("postgres"))
	f := &fixture{t, NewStore(pool, DefaultPolicy()), nil, pool}
	const n, batch = 2000, 100
	f.life(n, batch) // the first pages and relations are no item's
	if _, err := pool.Exec(t.Context(), `CHECKPOINT`); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, phase := range f.life(n, batch) {
		t.Logf("%-8s %5d B an item", phase.name, phase.bytes)
		total += phase.bytes
	}
	t.Logf("%-8s %5d B an item", "life", total)
	if limit := 1533 * 11 / 10; total > limit {
		t.Errorf("want at most %d B an item, got %d", limit, total)
	}
}

// phase is one step of all items' lives.
type phase struct {
	name  string
	bytes int // of log, an item
}

// life takes n items from the producer to acceptance.
func (f *fixture) life(n, batch int) []phase {
	f.Helper()
	ctx := f.Context()
	var phases []phase
	measure := func(name string, do func()) {
		before := position(f, f.pool)
		do()
		phases = append(phases, phase{name, int(position(f, f.pool)-before) / n})
	}
	var ids []int64
	var claims []Ref
	measure("stage", func() {
		for i := range n {
			var id int64
			err := f.pool.QueryRow(ctx, `
INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
VALUES ('tenant-1', 'usage:api:' || gen_random_uuid(), 'live', '1', $1) RETURNING id`, payload).Scan(&id)
			if err != nil {
				f.Fatalf("stage %d: %v", i, err)
			}
			ids = append(ids, id)
		}
	})
	measure("claim", func() {
		for part := range slices.Chunk(ids, batch) {
			items, err := f.Claim(ctx, Claimer{Exporter: "stripe", Owner: owner}, part)
			if err != nil || len(items) != len(part) {
				f.Fatalf("claim: %d of %d, %v", len(items), len(part), err)
			}
			for i := range items {
				claims = append(claims, items[i].Ref())
			}
		}
	})
	measure("accept", func() {
		for part := range slices.Chunk(claims, batch) {
			f.acceptAll(part)
		}
	})
	return phases
}

func position(t testing.TB, pool *pgxpool.Pool) (bytes int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT pg_current_wal_insert_lsn() - '0/0'`).Scan(&bytes); err != nil {
		t.Fatal(fmt.Errorf("position: %w", err))
	}
	return bytes
}

// A claim rewrites a row on its page and touches no index, also where sweeps claim all rows of their pages.
func TestClaimIsHOT(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	const n, batch = 2000, 100
	f.backlog(n)
	for range n / batch {
		items, err := f.Sweep(t.Context(), Claimer{Exporter: "stripe", Owner: owner}, 0, batch)
		if err != nil || len(items) != batch {
			t.Fatalf("sweep: %d of %d, %v", len(items), batch, err)
		}
	}
	var updates, hot int
	pgtest.Eventually(t, 20*time.Second, func() error {
		err := f.pool.QueryRow(t.Context(), `
SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'weir.deliveries'::regclass`).Scan(&updates, &hot)
		if err == nil && updates < n {
			err = fmt.Errorf("%d of %d updates are counted", updates, n)
		}
		return err
	})
	if hot < updates*95/100 {
		t.Errorf("want claims to be HOT, got %d of %d", hot, updates)
	}
}
