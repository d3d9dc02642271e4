package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// needs are the privileges that the relay and the commands use, but those of commandNeeds.
const needs = `
SELECT n.object || ' ' || n.privilege
  FROM (VALUES ('weir.outbox', 'SELECT'), ('weir.deliveries', 'SELECT'), ('weir.deliveries', 'UPDATE'),
               ('weir.checkpoints', 'SELECT'), ('weir.checkpoints', 'INSERT'), ('weir.checkpoints', 'UPDATE'),
               ('weir.operations', 'SELECT'), ('weir.operations', 'INSERT'), ('weir.items', 'SELECT'),
               ('weir.drifts', 'SELECT'), ('weir.suspects', 'SELECT')) n (object, privilege)
 WHERE CASE WHEN to_regclass(n.object) IS NOT NULL THEN NOT has_table_privilege(n.object, n.privilege) END`

// commandNeeds are the privileges of single commands, which a relay's role may well lack.
const commandNeeds = `
SELECT 'weir ' || n.command || ' needs ' || n.object || ' ' || n.privilege
  FROM (VALUES ('enqueue', 'weir.outbox', 'INSERT'), ('gc', 'weir.outbox', 'DELETE'), ('gc', 'weir.deliveries', 'DELETE'))
       n (command, object, privilege)
 WHERE NOT has_table_privilege(n.object, n.privilege)`

// needsAfterwards are those of reconciling and of webhooks.
const needsAfterwards = `
SELECT n.object || ' ' || p.privilege
  FROM unnest('{weir.buckets,weir.drifts,weir.suspects,weir.reconcilers,weir.inbox}'::text[]) n (object)
 CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p (privilege)
 WHERE CASE WHEN to_regclass(n.object) IS NOT NULL THEN NOT has_table_privilege(n.object, p.privilege) END
   AND NOT (n.object = 'weir.reconcilers' AND p.privilege = 'DELETE')
   AND NOT (n.object = 'weir.inbox' AND p.privilege IN ('UPDATE', 'DELETE'))`

// privileges checks what the role may do.
func (d *doctor) privileges(ctx context.Context) {
	var usage bool
	var role string
	if err := d.db.QueryRow(ctx, `SELECT has_schema_privilege('weir', 'USAGE'), current_user`).Scan(&usage, &role); err != nil {
		d.trouble("privileges", err)
		return
	}
	if !usage {
		d.add("privileges", levelFail, fmt.Sprintf("GRANT USAGE ON SCHEMA weir TO %s", pgx.Identifier{role}.Sanitize()), "role %s may not use the schema", role)
		return
	}
	missing, err := d.lacks(ctx, needs)
	if err == nil && afterwards(d.config) > 0 {
		var more []string
		more, err = d.lacks(ctx, needsAfterwards)
		missing = append(missing, more...)
	}
	var commands []string
	if err == nil {
		commands, err = d.lacks(ctx, commandNeeds)
	}
	switch {
	case err != nil:
		d.trouble("privileges", err)
	case len(missing) > 0:
		d.add("privileges", levelFail, fmt.Sprintf("GRANT them to %s, if the relay runs as it; a producer's role needs none of them: see docs/operation.md", pgx.Identifier{role}.Sanitize()),
			"role %s lacks %s", role, strings.Join(missing, ", "))
	case len(commands) > 0:
		d.add("privileges", levelNote, "", "role %s may do everything that weir run does; %s", role, strings.Join(commands, ", "))
	default:
		d.add("privileges", levelOK, "", "role %s may do everything that weir does", role)
	}
}

// lacks answers what one of the questions above finds missing.
func (d *doctor) lacks(ctx context.Context, question string) ([]string, error) {
	rows, err := d.db.Query(ctx, question)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// upkeep checks what keeps the tables small.
func (d *doctor) upkeep(ctx context.Context) {
	var on, table bool
	var dead, live int64
	err := d.db.QueryRow(ctx, `
SELECT current_setting('autovacuum')::bool,
       NOT coalesce(array_to_string(c.reloptions, ',') ~ 'autovacuum_enabled=(false|off|0|no)', false),
       coalesce(s.n_dead_tup, 0), coalesce(s.n_live_tup, 0)
  FROM pg_class c
  LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
 WHERE c.oid = 'weir.deliveries'::regclass`).Scan(&on, &table, &dead, &live)
	switch {
	case err != nil:
		d.trouble("autovacuum", err)
	case !on:
		d.add("autovacuum", levelFail, "set autovacuum = on", "is off on this server: the tables grow with every delivery")
	case !table:
		d.add("autovacuum", levelFail, "ALTER TABLE weir.deliveries RESET (autovacuum_enabled)", "is off for weir.deliveries: it grows with every delivery")
	case dead > 100_000 && dead > live/2:
		d.add("autovacuum", levelWarn, "see what holds it back below, or VACUUM weir.deliveries", "weir.deliveries has %d dead rows beside %d live ones", dead, live)
	default:
		d.add("autovacuum", levelOK, "", "keeps up: %d dead rows beside %d live ones in weir.deliveries", dead, live)
	}
	d.longTransactions(ctx, longTransaction)
}

// longTransaction is how old a transaction may be before it is worth a word.
const longTransaction = 10 * time.Minute

// longTransactions finds what has held vacuum back for longer than limit, and what a new slot would wait for.
func (d *doctor) longTransactions(ctx context.Context, limit time.Duration) {
	rows, err := d.db.Query(ctx, `
SELECT format('process %s of %s (%s, %s)', pid, coalesce(usename, '?'), coalesce(nullif(application_name, ''), '?'), coalesce(state, '?')),
       extract(epoch FROM clock_timestamp() - xact_start)::float8
  FROM pg_stat_activity
 WHERE xact_start < clock_timestamp() - $1 * interval '1 second'
   AND backend_type = 'client backend'
 UNION ALL
SELECT format('prepared transaction %s of %s', gid, owner), extract(epoch FROM clock_timestamp() - prepared)::float8
  FROM pg_prepared_xacts
 WHERE prepared < clock_timestamp() - $1 * interval '1 second'
 ORDER BY 2 DESC
 LIMIT 3`, limit.Seconds())
	if err != nil {
		d.trouble("transactions", err)
		return
	}
	type transaction struct {
		Who string
		Age float64
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[transaction])
	if err != nil {
		d.trouble("transactions", err)
		return
	}
	for _, t := range found {
		d.add("transactions", levelWarn, "end it, and see why it stays open",
			"%s has been open for %s: it holds vacuum back, and a new slot would wait for it", t.Who, age(time.Duration(t.Age*float64(time.Second))))
	}
	if len(found) == 0 {
		d.add("transactions", levelOK, "", "none is open for longer than %v", limit)
	}
}
