package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// RemovedPrefix is the prefix of the logical message in which a deletion announces what it removed, as
// {exporter: {state: n}}: a DELETE in the log carries only the key, and the counts have to follow.
const RemovedPrefix = "weir.removed"

// atRest is what may go: confirmed items, accepted ones where the caller says so ($4), and what a person
// abandoned; each by the time at which it came to rest, never by its age (lesson 24).
const atRest = `(c.state = 'confirmed' AND c.confirmed_at < clock_timestamp() - $3 * interval '1 second'
            OR $4 AND c.state = 'accepted' AND c.accepted_at < clock_timestamp() - $3 * interval '1 second'
            OR c.abandoned_at < clock_timestamp() - $3 * interval '1 second')`

// The message is in the transaction of the deletion.
const removeSQL = `
WITH rest AS MATERIALIZED (
    SELECT c.id
      FROM weir.deliveries c
     WHERE c.id > $1
       AND c.id <= $2
       AND ` + atRest + `
     ORDER BY c.id
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir.deliveries d USING rest WHERE d.id = rest.id
    RETURNING d.id, d.exporter, d.state
), intents AS (
    DELETE FROM weir.outbox o USING rest WHERE o.id = rest.id
), removed AS (
    SELECT exporter, state, count(*) AS n FROM gone GROUP BY exporter, state
), announced AS (
    SELECT jsonb_object_agg(exporter, states) AS message
      FROM (SELECT exporter, jsonb_object_agg(state, n) AS states FROM removed GROUP BY exporter) e
)
SELECT (SELECT coalesce(sum(n), 0)::bigint FROM removed),
       (SELECT pg_logical_emit_message(true, $5, message::text) FROM announced WHERE message IS NOT NULL)::text`

// Retention says what Remove may take away.
type Retention struct {
	// Keep is how long an item stays after it came to rest. While it stays, a producer that enqueues it
	// again is told so; afterwards the same item would be new. So it must be longer than any producer
	// retries, and than the provider accepts the event's time.
	Keep time.Duration
	// Accepted lets items go that were accepted and never confirmed: where nothing reconciles, nothing
	// else would ever remove them.
	Accepted bool
}

// Remove deletes the items at rest with ids in (after, upTo] and announces the deletion to the stream. It
// answers how many it removed. Keep the span small: one call is one transaction.
func (s *Store) Remove(ctx context.Context, r Retention, after, upTo int64) (int64, error) {
	rows, err := s.db.Query(ctx, removeSQL, after, upTo, seconds(r.Keep), r.Accepted, RemovedPrefix)
	if err != nil {
		return 0, fmt.Errorf("remove: %w", err)
	}
	removed, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (n int64, err error) {
		var lsn *string
		return n, row.Scan(&n, &lsn)
	})
	if err != nil {
		return 0, fmt.Errorf("remove: %w", err)
	}
	return removed, nil
}

// Resting is how many items of an exporter and a state Remove would take away. State is abandoned for those
// that a person has abandoned.
type Resting struct {
	Exporter string `json:"exporter"`
	State    string `json:"state"`
	Items    int64  `json:"items"`
}

const restingSQL = `
SELECT c.exporter, CASE WHEN c.abandoned_at IS NULL THEN c.state ELSE 'abandoned' END AS state, count(*) AS items
  FROM weir.deliveries c
 WHERE c.id > $1
   AND c.id <= $2
   AND ` + atRest + `
 GROUP BY 1, 2
 ORDER BY 1, 2`

// Resting counts the items at rest with ids in (after, upTo]: what Remove would take away.
func (s *Store) Resting(ctx context.Context, r Retention, after, upTo int64) ([]Resting, error) {
	rows, err := s.db.Query(ctx, restingSQL, after, upTo, seconds(r.Keep), r.Accepted)
	if err != nil {
		return nil, fmt.Errorf("count what is at rest: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Resting])
	if err != nil {
		return nil, fmt.Errorf("count what is at rest: %w", err)
	}
	return found, nil
}
