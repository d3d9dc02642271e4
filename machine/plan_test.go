package machine

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// planned is a statement and literals for its parameters, as the relay sends them.
type planned struct {
	name, sql string
	types     string
	arguments string
	sorts     bool // a sort of what the arguments name is part of it
}

func statements() []planned {
	lane := `'stripe', 'w1', 120.0, 82800.0, `
	laneTypes := `text, text, float8, float8, `
	all := []planned{
		{"accept", acceptSQL, `bigint[], bigint[], text[]`, `'{1,2}', '{1,1}', '{a,b}'`, false},
		{"retry", retrySQL, `bigint[], bigint[], text[], integer[], boolean[], float8[], integer, float8`,
			`'{1}', '{1}', '{c}', '{0}', '{f}', '{5}', 20, 82800`, false},
		{"doubt", doubtSQL, `bigint[], bigint[], text[]`, `'{1}', '{1}', '{c}'`, false},
		{"reject", rejectSQL, `bigint[], bigint[], text[]`, `'{1}', '{1}', '{c}'`, false},
		{"quarantine", quarantineSQL, `bigint[], bigint[], text[], boolean[], text[]`, `'{1}', '{1}', '{c}', '{t}', '{r}'`, false},
		{"confirm", confirmSQL, `bigint[]`, `'{1,2}'`, false},
		{"report", reportSQL, `bytea[], text[]`, `'{"\\x01"}', '{c}'`, true},
		{"recover", recoverSQL, `bigint, bigint, text, text, text`, `1, 1, 'pending', 'a', 'r'`, false},
		{"requeue", requeueSQL, `bigint, text, text, text`, `1, '1', 'a', 'r'`, false},
		{"abandon", abandonSQL, `bigint, text, text, text`, `1, 'rejected', 'a', 'r'`, false},
		// The sort is of exporters and states, a handful.
		{"remove", removeSQL, `bigint, bigint, float8, boolean, text`, `0, 500, 3600, true, 'weir.removed'`, true},
	}
	for _, order := range Orders {
		if next, ordered := successorSQL[order]; ordered {
			all = append(all, planned{"next " + string(order), next, `text, text[], text[]`, `'stripe', '{s}', '{k1}'`, true})
		}
		all = append(all,
			planned{"claim " + string(order), claimSQL[order].byID, laneTypes + `bigint[]`, lane + `'{1,2,200001}'`, false},
			planned{"sweep " + string(order), claimSQL[order].byScan, laneTypes + `bigint, bigint`, lane + `0, 100`, false})
	}
	return all
}

// Plans are by index whatever the server knows of the tables: nothing at all, the small tables of the
// beginning, or 200,000 settled rows before 1,000 open ones. And none of them reads the settled rows: the
// figures of the last are those of a run.
func TestPlansAreByIndex(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	conn, err := f.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	prepare(t, conn.Conn()) // while the tables are empty; the connection keeps its plans as long as it can
	check := func(t *testing.T, run bool) {
		for i, s := range statements() {
			t.Run(s.name, func(t *testing.T) {
				plan := explain(t, conn.Conn(), fmt.Sprintf("EXECUTE s%d (%s)", i, s.arguments), run)
				if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Bitmap") || strings.Contains(plan, "Hash Join") || strings.Contains(plan, "Merge Join") {
					t.Errorf("not by index:\n%s", plan)
				}
				if strings.Contains(plan, "Sort Key") && !s.sorts {
					t.Errorf("sorts:\n%s", plan)
				}
				if removed := regexp.MustCompile(`Rows Removed by (?:Filter|Join Filter|Index Recheck): (\d{4,})`).FindString(plan); removed != "" {
					t.Errorf("reads what it doesn't need:\n%s", plan)
				}
			})
		}
	}
	t.Run("empty", func(t *testing.T) { check(t, false) })
	settled := 200_000
	if testing.Short() {
		settled = 20_000
	}
	settledBefore(f, settled, 1000)
	t.Run("kept from the beginning", func(t *testing.T) { check(t, true) })
	f.db.Exec(t, `ANALYZE weir.outbox, weir.deliveries`)
	t.Run("analyzed", func(t *testing.T) { check(t, true) })
}

func prepare(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for i, s := range statements() {
		sql := fmt.Sprintf("PREPARE s%d (%s) AS %s", i, s.types, s.sql)
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
}

// A plan that is made while most items are open must not walk over them by the primary key: once they are
// settled, it would read them all. Neither must the question who comes first in a line.
func TestPlansReadOpenItemsOnly(t *testing.T) {
	for _, share := range []struct{ settled, open int }{{0, 4000}, {2000, 2000}, {4000, 200}, {4000, 20}} {
		t.Run(fmt.Sprintf("%d settled %d open", share.settled, share.open), func(t *testing.T) {
			f := newFixture(t, DefaultPolicy())
			settledBefore(f, share.settled, share.open)
			f.db.Exec(t, `VACUUM ANALYZE weir.outbox, weir.deliveries`)
			conn, err := f.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			prepare(t, conn.Conn())
			for i, s := range statements() {
				plan := explain(t, conn.Conn(), fmt.Sprintf("EXECUTE s%d (%s)", i, s.arguments), false)
				sweep := strings.HasPrefix(s.name, "sweep") && strings.Contains(plan, "deliveries_pkey on deliveries c")
				if sweep || strings.Contains(plan, "deliveries_pkey on deliveries e") {
					t.Errorf("%s walks over settled items:\n%s", s.name, plan)
				}
			}
		})
	}
}

// settledBefore fills the tables: settled items of the past, and then open ones in 100 lines.
func settledBefore(f *fixture, settled, open int) {
	f.Helper()
	f.db.Exec(f, `
INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload, order_key, source)
SELECT 'tenant', 'item-' || i, 'test', '1', '{"value": 1}', 'k' || i % 100, 's' FROM generate_series(1, $1::int) i`, settled+open)
	f.force(`
UPDATE weir.deliveries
   SET state = 'confirmed', lease_token = 1, attempts = 1, first_attempt_at = clock_timestamp(),
       accepted_at = clock_timestamp(), confirmed_at = clock_timestamp()
 WHERE id <= $1::bigint`, settled)
}

// explain answers the plan, with the figures of a run that is rolled back where run says so.
func explain(t *testing.T, conn *pgx.Conn, statement string, run bool) string {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	option := ""
	if run {
		option = "(ANALYZE, BUFFERS) "
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN "+option+statement, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
