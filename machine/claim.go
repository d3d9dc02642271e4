package machine

import (
	"context"
	"fmt"
)

// Order says which items of an exporter may be sent before which.
type Order string

// The ordering policies. Under concurrent producers all are best effort in one respect: an item that
// commits late with a lower id than one already sent comes after it. Producers that need more serialise
// the transactions that enqueue one key.
const (
	// BestEffort sends in id order, without waiting for anything.
	BestEffort Order = "best_effort"
	// PerKey sends an item only when no earlier open item has its (source, order_key). Items without a
	// key wait for nothing.
	PerKey Order = "per_key"
	// PerSource sends an item only when no earlier open item has its source, whatever its key.
	PerSource Order = "per_source"
	// StopTheLine sends one item at a time, the earliest open one, and none while an item that was sent
	// waits for a person: uncertain, rejected or quarantined, and not abandoned.
	StopTheLine Order = "stop_the_line"
)

// Orders lists the policies.
var Orders = []Order{BestEffort, PerKey, PerSource, StopTheLine}

// Claimer says who claims for which exporter.
type Claimer struct {
	Exporter string
	Owner    string // lease_owner: who holds the items, for people
	Order    Order  // "" is BestEffort
}

// T1. Two ways to find candidates, one way to take them.
//
// FOR UPDATE SKIP LOCKED decides who gets an item; the fence is repeated at the end, as everywhere. The
// horizon is compared with what first_attempt_at was before this claim: an item past it comes back marked,
// to be doubted instead of sent.
const (
	claimTake = `
UPDATE weir.deliveries d
   SET state = 'leased',
       from_state = d.state,
       attempts = d.attempts + 1,
       first_attempt_at = coalesce(d.first_attempt_at, clock_timestamp()),
       lease_owner = $2,
       lease_expires_at = clock_timestamp() + $3 * interval '1 second',
       lease_token = d.lease_token + 1
  FROM due
  JOIN weir.outbox o ON o.id = due.id
 WHERE d.id = due.id
   AND (d.state = 'pending' AND d.next_attempt_at <= clock_timestamp()
        OR d.state = 'leased' AND d.lease_expires_at < clock_timestamp())
RETURNING d.id, d.lease_token, d.attempts,
          coalesce(due.first_attempt_at + $4 * interval '1 second' <= clock_timestamp(), false),
          due.first_attempt_at IS NULL,
          o.exporter, o.tenant_key, o.subject_kind, o.subject_ref, o.destination_account, o.mode,
          o.mapping_version, o.identity, o.payload, coalesce(o.order_key, ''), coalesce(o.source, ''),
          coalesce(o.traceparent, ''), o.inserted_at`

	claimByID = `
WITH due AS MATERIALIZED (
    SELECT c.id, c.first_attempt_at
      FROM weir.deliveries c
     WHERE c.id = ANY ($5::bigint[])
       AND c.exporter = $1
       AND (c.state = 'pending' AND c.next_attempt_at <= clock_timestamp()
            OR c.state = 'leased' AND c.lease_expires_at < clock_timestamp())%s
     ORDER BY c.id
       FOR UPDATE OF c SKIP LOCKED
)` + claimTake

	claimByScan = `
WITH due AS MATERIALIZED (
    SELECT c.id, c.first_attempt_at
      FROM weir.deliveries c
     WHERE c.exporter = $1
       AND c.open
       AND c.id > $5
       AND (c.state = 'pending' AND c.next_attempt_at <= clock_timestamp()
            OR c.state = 'leased' AND c.lease_expires_at < clock_timestamp())%s
     ORDER BY c.id
     LIMIT $6
       FOR UPDATE OF c SKIP LOCKED
)` + claimTake

	// The head of the line alone is claimable. An equal key that is open and earlier keeps the others back,
	// whether it is due or not.
	headOfKey = `
       AND (c.order_key IS NULL OR NOT EXISTS (
            SELECT FROM weir.deliveries e
             WHERE e.open
               AND e.exporter = c.exporter
               AND e.source = c.source
               AND e.order_key = c.order_key
               AND e.id < c.id))`

	headOfSource = `
       AND (c.source IS NULL OR c.source = '' OR NOT EXISTS (
            SELECT FROM weir.deliveries e
             WHERE e.open
               AND e.exporter = c.exporter
               AND e.source = c.source
               AND e.id < c.id))`

	// What was quarantined by its producer was never in the line.
	headOfLine = `
       AND c.id = (SELECT min(e.id) FROM weir.deliveries e WHERE e.open AND e.exporter = $1)
       AND NOT EXISTS (
            SELECT FROM weir.deliveries e
             WHERE e.attention
               AND e.exporter = $1
               AND e.lease_token > 0)`
)

// claimSQL is the pair of claim statements of each policy.
var claimSQL = map[Order]struct{ byID, byScan string }{
	"":          {fmt.Sprintf(claimByID, ""), fmt.Sprintf(claimByScan, "")},
	BestEffort:  {fmt.Sprintf(claimByID, ""), fmt.Sprintf(claimByScan, "")},
	PerKey:      {fmt.Sprintf(claimByID, headOfKey), fmt.Sprintf(claimByScan, headOfKey)},
	PerSource:   {fmt.Sprintf(claimByID, headOfSource), fmt.Sprintf(claimByScan, headOfSource)},
	StopTheLine: {fmt.Sprintf(claimByID, headOfLine), fmt.Sprintf(claimByScan, headOfLine)},
}

// Claim takes those of the items with ids that are due (T1), in id order. An id that it doesn't answer is
// not due, held by somebody else, settled, or not visible yet: Look tells which.
func (s *Store) Claim(ctx context.Context, c Claimer, ids []int64) ([]Item, error) {
	return s.claim(ctx, c.Order, claimSQL[c.Order].byID, c.Exporter, c.Owner, seconds(s.policy.Lease), seconds(s.policy.Horizon), ids)
}

// Sweep takes up to limit due items with ids above after (T1), in id order. Fewer than limit means that
// there were no more at that moment; late commits may appear below after, so a sweep always ends with one
// from 0 (lesson 24).
func (s *Store) Sweep(ctx context.Context, c Claimer, after int64, limit int) ([]Item, error) {
	return s.claim(ctx, c.Order, claimSQL[c.Order].byScan, c.Exporter, c.Owner, seconds(s.policy.Lease), seconds(s.policy.Horizon), after, limit)
}

func (s *Store) claim(ctx context.Context, order Order, sql string, args ...any) ([]Item, error) {
	if sql == "" {
		return nil, fmt.Errorf("claim: there is no order %q: use one of %q", order, Orders)
	}
	rows, err := s.db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	defer rows.Close()
	var items []Item
	for rows.Next() {
		var it Item
		var identity []byte
		err := rows.Scan(&it.ID, &it.Token, &it.Attempts, &it.PastHorizon, &it.FirstAttempt,
			&it.Exporter, &it.TenantKey, &it.SubjectKind, &it.SubjectRef, &it.Account, &it.Mode,
			&it.MappingVersion, &identity, (*[]byte)(&it.Payload), &it.OrderKey, &it.Source,
			&it.Traceparent, &it.InsertedAt)
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		copy(it.Identity[:], identity)
		items = append(items, it)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return items, nil
}
