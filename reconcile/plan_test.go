package reconcile

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// Among many rows at rest, the statements read those that wait, and few others.
func TestPlansReadWhatWaits(t *testing.T) {
	db := pgtest.Migrated(t)
	db.Exec(t, `ALTER TABLE weir.deliveries DISABLE TRIGGER transition`)
	db.Exec(t, `
INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
SELECT 't', i::text, 'test', '1', '{}' FROM generate_series(1, 20000) i`)
	db.Exec(t, `
UPDATE weir.deliveries
   SET state = CASE WHEN id % 1000 = 0 THEN 'accepted' WHEN id % 1000 = 1 THEN 'pending' ELSE 'confirmed' END,
       accepted_at = CASE WHEN id % 1000 <> 1 THEN now() END,
       confirmed_at = CASE WHEN id % 1000 > 1 THEN now() END`)
	db.Exec(t, `VACUUM ANALYZE weir.deliveries, weir.outbox`)
	settings, err := pgx.ParseConfig(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range machine.SessionParameters() {
		settings.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for i, s := range []struct{ sql, types, arguments string }{
		{awaitingSQL, `text, timestamptz`, `'stripe', '-infinity'`},
		{travellingSQL, `text`, `'stripe'`},
		{doubtfulSQL, `text`, `'stripe'`},
		{byIDSQL, `bigint[]`, `'{1000,2000}'`},
		{byIdentitySQL, `bytea[]`, `'{"\\x01"}'`},
		{confirmedSQL, `text, text, text, text, timestamptz, timestamptz`, `'stripe', 'test', 'm', 'c', 'yesterday', 'now'`},
		{openSQL, `text`, `'stripe'`},
		{settleSQL, `text, timestamptz`, `'stripe', 'now'`},
		{overdueSQL, `text`, `'stripe'`},
	} {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("PREPARE s%d (%s) AS %s", i, s.types, s.sql)); err != nil {
			t.Fatalf("%v: %s", err, s.sql)
		}
		rows, err := conn.Query(t.Context(), fmt.Sprintf("EXPLAIN (ANALYZE, TIMING OFF) EXECUTE s%d (%s)", i, s.arguments), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if regexp.MustCompile(`actual rows=\d{3,}|Removed by (?:Join )?Filter: \d{3,}`).MatchString(plan) || strings.Contains(plan, "Seq Scan on deliveries") {
			t.Errorf("reads more than what waits:\n%s", plan)
		}
	}
}

// Numbers agree where their first 15 digits do, which is as far as Stripe's floating point goes.
func TestSame(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"0", "0", true},
		{"0", "0.000000000001", false},
		{"0.3", "0.30000000000000004", true},
		{"123456789012345", "123456789012346", false},
		{"123456789012345.1", "123456789012345", true},
		{"-0.3", "0.3", false},
		{"1e15", "1000000000000010", false},
		{"1e15", "1000000000000001", true},
		{"1e16", "10000000000000001", true},
		{"100000000000000.000000000001", "100000000000000", true},
		{"12", "12.0", true},
	} {
		a, b := decimal.RequireFromString(tt.a), decimal.RequireFromString(tt.b)
		if same(a, b) != tt.want || same(b, a) != tt.want {
			t.Errorf("%s and %s: got %v", tt.a, tt.b, !tt.want)
		}
	}
}

// Readings cover each bucket once, none covers more than a page, and the oldest come first.
func TestPlan(t *testing.T) {
	buckets := map[Key]*bucket{}
	resting := map[Key]bool{}
	for _, customer := range []string{"a", "b"} {
		for _, hour := range []int64{0, 1, 99, 100, 150, 199, 200, 500} {
			b := at(buckets, series{"test", "m", customer}.at(hour*3600))
			b.oldest = b.Hour
		}
	}
	resting[series{"test", "m", "b"}.at(0)] = true
	var got []string
	for _, q := range plan(buckets, resting) {
		got = append(got, fmt.Sprintf("%s %d-%d", q.customer, q.from/3600, q.to/3600))
		if q.to-q.from > MaxHours*3600 {
			t.Errorf("too long: %+v", q)
		}
	}
	if want := "[a 0-100 b 1-101 a 100-200 b 150-201 a 200-201 a 500-501 b 500-501]"; fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}
