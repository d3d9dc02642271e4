package migrations_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-relay/weir/internal/pgtest"
)

// rows are the columns of a valid row of each table, as SQL.
var rows = map[string]map[string]string{
	"outbox":      {"tenant_key": "'t'", "subject_kind": "'usage'", "subject_ref": "'r'", "exporter": "'stripe'", "destination_account": "''", "mode": "'test'", "mapping_version": "'1'", "payload": "'{}'"},
	"deliveries":  {"id": "1", "exporter": "'stripe'", "state": "'pending'"},
	"checkpoints": {"slot": "'weir'", "system_identifier": "'7'", "timeline": "1", "lsn": "'0/1'", "counts": "'{}'"},
	"operations":  {"actor": "'a'", "action": "'requeue'", "item_id": "1", "from_state": "'quarantined'", "to_state": "'pending'", "reason": "'r'"},
	"inbox":       {"consumer": "'c'", "message_id": "'m'"},
	"buckets":     {"exporter": "'stripe'", "mode": "'test'", "meter": "'m'", "customer": "'c'", "hour": "'2026-11-30T10:00:00Z'"},
	"drifts": {"exporter": "'stripe'", "mode": "'test'", "meter": "'m'", "customer": "'c'", "hour": "'2026-11-30T10:00:00Z'", "formula": "'sum'",
		"expected": "1", "found": "2", "side": "'provider'", "why": "''", "candidates": "'[]'", "next_check_at": "now()"},
	"suspects":    {"exporter": "'stripe'", "event_id": "'evt_1'", "code": "'archived_meter'", "detail": "'archived_meter'", "events": "1"},
	"reconcilers": {"exporter": "'stripe'", "owner": "'w'", "next_pass_at": "now()", "reads": "1"},
}

// insert is a valid row of table with some columns set otherwise: "column = SQL".
func insert(table string, set ...string) string {
	row := maps.Clone(rows[table])
	for _, s := range set {
		column, value, _ := strings.Cut(s, " = ")
		row[column] = value
	}
	columns := slices.Sorted(maps.Keys(row))
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = row[c]
	}
	return "INSERT INTO weir." + table + " (" + strings.Join(columns, ", ") + ") OVERRIDING SYSTEM VALUE VALUES (" + strings.Join(values, ", ") + ")"
}

func outbox(set ...string) string     { return insert("outbox", set...) }
func delivery(set ...string) string   { return insert("deliveries", set...) }
func checkpoint(set ...string) string { return insert("checkpoints", set...) }
func operation(set ...string) string  { return insert("operations", set...) }
func inbox(set ...string) string      { return insert("inbox", set...) }

func twice(statement string) string { return statement + ";" + statement }

const abandoned = "abandoned_at = now()"

// violations: for each constraint, statements that it refuses, and that nothing else does.
var violations = map[string][]string{
	"outbox_pkey":                      {outbox("id = 7") + ";" + outbox("id = 7", "tenant_key = 'u'")},
	"outbox_identity_key":              {twice(outbox())},
	"outbox_separator_check":           eachOf("outbox", `E'a\x1fb'`, "tenant_key", "subject_kind", "subject_ref", "destination_account", "mapping_version"),
	"outbox_tenant_key_check":          {outbox("tenant_key = ''"), outbox("tenant_key = repeat('é', 256)")},
	"outbox_subject_kind_check":        {outbox("subject_kind = ''"), outbox("subject_kind = repeat('k', 64)")},
	"outbox_subject_ref_check":         {outbox("subject_ref = ''"), outbox("subject_ref = repeat('r', 1025)")},
	"outbox_exporter_check":            {outbox("exporter = ''"), outbox("exporter = 'Stripe'"), outbox("exporter = '2'"), outbox("exporter = repeat('e', 64)"), outbox(`exporter = E'stripe\n'`)},
	"outbox_destination_account_check": {outbox("destination_account = repeat('a', 256)")},
	"outbox_mode_check":                {outbox("mode = ''"), outbox("mode = 'LIVE'")},
	"outbox_mapping_version_check":     {outbox("mapping_version = ''"), outbox("mapping_version = repeat('1', 64)")},
	"outbox_payload_check":             {outbox("payload = '[]'"), outbox("payload = 'null'"), outbox("payload = '1'")},
	"outbox_order_key_check":           {outbox("order_key = ''"), outbox("order_key = repeat('o', 256)")},
	"outbox_source_check":              {outbox("source = ''"), outbox("source = repeat('s', 256)")},
	"outbox_quarantine_reason_check":   {outbox("quarantine_reason = ''"), outbox("quarantine_reason = 'not known'"), outbox("quarantine_reason = repeat('q', 64)")},

	"deliveries_pkey":             {twice(delivery())},
	"deliveries_state_check":      {delivery("state = 'sent'"), delivery("state = ''")},
	"deliveries_from_state_check": {delivery("from_state = 'sent'")},
	"deliveries_lease_check": {
		delivery("state = 'leased'"),
		delivery("state = 'leased'", "lease_owner = 'w'"),
		delivery("state = 'leased'", "lease_expires_at = now()"),
		delivery("lease_owner = 'w'", "lease_expires_at = now()"),
		delivery("lease_expires_at = now()"),
	},
	"deliveries_attempts_check":      {delivery("attempts = -1"), delivery("attempts = 2", "lease_token = 1", "first_attempt_at = now()"), delivery("lease_token = -1")},
	"deliveries_first_attempt_check": {delivery("attempts = 1", "lease_token = 1")},
	"deliveries_accepted_check":      {delivery("state = 'accepted'"), delivery("state = 'confirmed'", "confirmed_at = now()")},
	"deliveries_confirmed_check":     {delivery("state = 'confirmed'", "accepted_at = now()"), delivery("confirmed_at = now()")},
	"deliveries_quarantined_check":   {delivery("state = 'quarantined'"), delivery("quarantine_reason = 'q'")},
	"deliveries_reason_check":        {delivery("state = 'uncertain'"), delivery("state = 'rejected'")},
	"deliveries_last_error_check":    {delivery("last_error = repeat('e', 301)")},
	"deliveries_abandoned_check": {
		delivery("state = 'rejected'", "last_error = 'e'", abandoned),
		delivery("state = 'rejected'", "last_error = 'e'", abandoned, "abandoned_by = 'a'"),
		delivery("state = 'rejected'", "last_error = 'e'", abandoned, "abandon_reason = 'r'"),
		delivery("state = 'rejected'", "last_error = 'e'", "abandoned_by = 'a'", "abandon_reason = 'r'"),
		delivery("state = 'uncertain'", "last_error = 'e'", abandoned, "abandoned_by = 'a'", "abandon_reason = 'r'"),
		delivery("state = 'accepted'", "accepted_at = now()", abandoned, "abandoned_by = 'a'", "abandon_reason = 'r'"),
	},

	"checkpoints_pkey":         {twice(checkpoint())},
	"checkpoints_lsn_check":    {checkpoint("lsn = '0/0'")},
	"checkpoints_counts_check": {checkpoint("counts = '[]'")},

	"operations_pkey":         {twice(operation("id = 7"))},
	"operations_actor_check":  {operation("actor = ''")},
	"operations_reason_check": {operation("reason = ''")},

	"inbox_pkey":             {twice(inbox())},
	"inbox_consumer_check":   {inbox("consumer = ''")},
	"inbox_message_id_check": {inbox("message_id = ''")},

	"buckets_pkey":       {twice(insert("buckets"))},
	"buckets_hour_check": {insert("buckets", "hour = '2026-11-30T10:30:00Z'"), insert("buckets", "hour = '2026-11-30T10:00:00.5Z'")},
	"buckets_last_check": {insert("buckets", "last_at = now()"), insert("buckets", "last_value = 1")},

	"drifts_pkey":               {twice(insert("drifts"))},
	"drifts_side_check":         {insert("drifts", "side = 'stripe'")},
	"drifts_acknowledged_check": {insert("drifts", "acknowledged_by = 'a'"), insert("drifts", "acknowledge_reason = 'r'")},
	"drifts_candidates_check":   {insert("drifts", "candidates = '{}'")},

	"suspects_pkey":         {twice(insert("suspects", "id = 7"))},
	"suspects_events_check": {insert("suspects", "events = -1")},

	"reconcilers_pkey":        {twice(insert("reconcilers"))},
	"reconcilers_reads_check": {insert("reconcilers", "reads = -0.5")},
}

func eachOf(table, value string, columns ...string) []string {
	var statements []string
	for _, c := range columns {
		statements = append(statements, insert(table, c+" = "+value))
	}
	return statements
}

func TestConstraints(t *testing.T) {
	db := pgtest.Migrated(t)
	for constraint, statements := range violations {
		t.Run(constraint, func(t *testing.T) {
			for _, statement := range statements {
				if pg := refusal(t, db, statement); pg == nil || pg.ConstraintName != constraint {
					t.Errorf("want %s to refuse, got %v:\n%s", constraint, pg, statement)
				}
			}
		})
	}
}

// Each violation differs from a row that is fine: without this, the table above could prove anything.
func TestValidRows(t *testing.T) {
	db := pgtest.Migrated(t)
	for table := range rows {
		if pg := refusal(t, db, insert(table)); pg != nil {
			t.Errorf("weir.%s: %v", table, pg)
		}
	}
	const odd = `E'\\ \n😀'`
	for _, statement := range []string{
		outbox("tenant_key = repeat('é', 255)", "subject_kind = repeat('k', 63)", "subject_ref = repeat('r', 1024)", "exporter = 'e' || repeat('_', 62)"),
		outbox("tenant_key = "+odd, "order_key = "+odd, "source = "+odd, "quarantine_reason = 'q'"),
		delivery("state = 'leased'", "lease_owner = 'w'", "lease_expires_at = now()", "attempts = 1", "lease_token = 1", "first_attempt_at = now()"),
		delivery("state = 'confirmed'", "accepted_at = now()", "confirmed_at = now()"),
		delivery("state = 'quarantined'", "quarantine_reason = 'q'", abandoned, "abandoned_by = 'a'", "abandon_reason = 'r'"),
		delivery("state = 'rejected'", "last_error = repeat('é', 300)", abandoned, "abandoned_by = 'a'", "abandon_reason = 'r'"),
	} {
		if pg := refusal(t, db, statement); pg != nil {
			t.Errorf("%v:\n%s", pg, statement)
		}
	}
}

func TestEveryConstraintHasAViolation(t *testing.T) {
	db := pgtest.Migrated(t)
	// 'n' are the NOT NULLs, which Postgres lists from 18 on; TestNotNull finds them itself.
	inSchema := one[[]string](t, db, `
		SELECT array_agg(conname::text)
		  FROM pg_constraint
		 WHERE connamespace = 'weir'::regnamespace AND conrelid <> 'weir.migrations'::regclass AND contype NOT IN ('n', 't')`)
	for _, name := range inSchema {
		if len(violations[name]) == 0 {
			t.Errorf("constraint %s is violated by no test: add it to the table violations", name)
		}
	}
	for name := range violations {
		if !slices.Contains(inSchema, name) {
			t.Errorf("constraint %s is in the table violations, but not in the schema", name)
		}
	}
}

func TestNotNull(t *testing.T) {
	db := pgtest.Migrated(t)
	found, err := db.Pool().Query(t.Context(), `
		SELECT c.relname, a.attname
		  FROM pg_attribute a
		  JOIN pg_class c ON c.oid = a.attrelid
		 WHERE c.relnamespace = 'weir'::regnamespace AND c.relkind = 'r' AND c.relname <> 'migrations'
		   AND a.attnum > 0 AND a.attnotnull AND a.attgenerated = ''`)
	if err != nil {
		t.Fatal(err)
	}
	type column struct{ Table, Name string }
	columns, err := pgx.CollectRows(found, pgx.RowToStructByPos[column])
	if err != nil {
		t.Fatal(err)
	}
	if len(columns) < 20 {
		t.Errorf("want the NOT NULL columns, got only %v", columns)
	}
	for _, c := range columns {
		if pg := refusal(t, db, insert(c.Table, c.Name+" = NULL")); pg == nil || pg.Code != "23502" {
			t.Errorf("weir.%s.%s: want NULL to be refused, got %v", c.Table, c.Name, pg)
		}
	}
}

// refusal is what Postgres says against statements; they are undone in any case.
func refusal(t *testing.T, db *pgtest.DB, statements string) *pgconn.PgError {
	t.Helper()
	tx, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	_, err = tx.Conn().PgConn().Exec(t.Context(), statements).ReadAll()
	var pg *pgconn.PgError
	if err != nil && !errors.As(err, &pg) {
		t.Fatal(err)
	}
	return pg
}
