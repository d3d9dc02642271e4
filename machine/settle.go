package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The settles, T2 to T6. Each ends in the same fence: the row still carries the token of the claim, and
// is still leased. A row that doesn't match was claimed again or settled since, and is left alone.

// Acceptance is an item that the provider took, under the claim Ref.
type Acceptance struct {
	Ref
	ProviderRef string // what the provider calls it, "" where it doesn't say; kept to one line of 255 characters
}

const acceptSQL = `
UPDATE weir.deliveries d
   SET state = 'accepted',
       from_state = 'leased',
       lease_owner = NULL,
       lease_expires_at = NULL,
       accepted_at = clock_timestamp(),
       provider_ref = nullif(s.provider_ref, ''),
       last_error = NULL
  FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS s (id, token, provider_ref)
 WHERE d.id = s.id
   AND d.lease_token = s.token
   AND d.state = 'leased'
RETURNING d.id`

// Accept records that the provider took the items (T2). It answers the ids it changed.
func (s *Store) Accept(ctx context.Context, settles []Acceptance) ([]int64, error) {
	settles, ids, tokens := refs(settles)
	return s.changed(ctx, "accept", acceptSQL, ids, tokens,
		column(settles, func(a *Acceptance) string { return clean(a.ProviderRef, maxProviderRef) }))
}

// Postponement is an item to be tried again, under the claim Ref.
type Postponement struct {
	Ref
	Cause
	Delay time.Duration // until it is due again
	Cost  Cost          // what the attempt counts for
	First bool          // Item.FirstAttempt: with Unsent, the horizon is taken back too
}

// Postponed says where Retry left an item.
type Postponed struct {
	ID    int64
	State State // Pending, or Uncertain where the cap or the horizon forbids another attempt
}

// What counts against cap and horizon is decided after the attempt's cost: $4 is taken off the attempts,
// $5 undoes a first attempt that was never made.
const retrySQL = `
UPDATE weir.deliveries d
   SET state = CASE WHEN d.attempts - s.refund >= $7
                      OR NOT s.undo AND clock_timestamp() + s.delay * interval '1 second' > d.first_attempt_at + $8 * interval '1 second'
                    THEN 'uncertain' ELSE 'pending' END,
       from_state = 'leased',
       attempts = d.attempts - s.refund,
       first_attempt_at = CASE WHEN s.undo THEN NULL ELSE d.first_attempt_at END,
       next_attempt_at = clock_timestamp() + s.delay * interval '1 second',
       lease_owner = NULL,
       lease_expires_at = NULL,
       last_error = CASE WHEN d.attempts - s.refund >= $7 THEN 'attempts exhausted: ' || s.cause
                         WHEN NOT s.undo AND clock_timestamp() + s.delay * interval '1 second' > d.first_attempt_at + $8 * interval '1 second'
                         THEN 'horizon reached: ' || s.cause
                         ELSE s.cause END
  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::boolean[], $6::float8[])
       AS s (id, token, cause, refund, undo, delay)
 WHERE d.id = s.id
   AND d.lease_token = s.token
   AND d.state = 'leased'
RETURNING d.id, d.state`

// Retry makes the items due again after their delay (T3), or doubts those for which the cap or the horizon
// forbids another attempt (T4). It answers where it left those it changed.
func (s *Store) Retry(ctx context.Context, settles []Postponement) ([]Postponed, error) {
	settles, ids, tokens := refs(settles)
	rows, err := s.db.Query(ctx, retrySQL, ids, tokens,
		column(settles, func(p *Postponement) string { return p.Cause.String() }),
		column(settles, func(p *Postponement) int32 { return p.refund() }),
		column(settles, func(p *Postponement) bool { return p.First && p.Cost == Unsent }),
		column(settles, func(p *Postponement) float64 { return seconds(p.Delay) }),
		s.policy.Attempts, seconds(s.policy.Horizon))
	if err != nil {
		return nil, fmt.Errorf("retry: %w", err)
	}
	postponed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Postponed])
	if err != nil {
		return nil, fmt.Errorf("retry: %w", err)
	}
	return postponed, nil
}

func (p *Postponement) refund() int32 {
	if p.Cost == Counted {
		return 0
	}
	return 1
}

// Failure is an item that goes no further by itself, under the claim Ref.
type Failure struct {
	Ref
	Cause
}

// next_attempt_at keeps when: the provider's books prove something only a while after the last attempt.
const doubtSQL = `
UPDATE weir.deliveries d
   SET state = 'uncertain',
       from_state = 'leased',
       next_attempt_at = clock_timestamp(),
       lease_owner = NULL,
       lease_expires_at = NULL,
       last_error = s.cause
  FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS s (id, token, cause)
 WHERE d.id = s.id
   AND d.lease_token = s.token
   AND d.state = 'leased'
RETURNING d.id`

// Doubt records that it can't be known whether the provider took the items, and that sending them again
// isn't safe (T4). It answers the ids it changed.
func (s *Store) Doubt(ctx context.Context, settles []Failure) ([]int64, error) {
	return s.fail(ctx, "doubt", doubtSQL, settles)
}

const rejectSQL = `
UPDATE weir.deliveries d
   SET state = 'rejected',
       from_state = 'leased',
       lease_owner = NULL,
       lease_expires_at = NULL,
       last_error = s.cause
  FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS s (id, token, cause)
 WHERE d.id = s.id
   AND d.lease_token = s.token
   AND d.state = 'leased'
RETURNING d.id`

// Reject records that the provider refused the items (T5). It answers the ids it changed.
func (s *Store) Reject(ctx context.Context, settles []Failure) ([]int64, error) {
	return s.fail(ctx, "reject", rejectSQL, settles)
}

func (s *Store) fail(ctx context.Context, step, sql string, settles []Failure) ([]int64, error) {
	settles, ids, tokens := refs(settles)
	return s.changed(ctx, step, sql, ids, tokens, column(settles, func(f *Failure) string { return f.Cause.String() }))
}

// The claim is undone with it: nothing was sent, so neither the attempt nor the horizon counts.
const quarantineSQL = `
UPDATE weir.deliveries d
   SET state = 'quarantined',
       from_state = 'leased',
       attempts = d.attempts - 1,
       first_attempt_at = CASE WHEN s.first THEN NULL ELSE d.first_attempt_at END,
       lease_owner = NULL,
       lease_expires_at = NULL,
       quarantine_reason = s.reason,
       last_error = s.cause
  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::text[]) AS s (id, token, cause, first, reason)
 WHERE d.id = s.id
   AND d.lease_token = s.token
   AND d.state = 'leased'
RETURNING d.id`

// Hold is an item found unfit to send, under the claim Ref. Cause.Code is the quarantine reason.
type Hold struct {
	Ref
	Cause
	First bool // Item.FirstAttempt
}

// Quarantine records that the items must not be sent as they are (T6). It answers the ids it changed.
func (s *Store) Quarantine(ctx context.Context, settles []Hold) ([]int64, error) {
	settles, ids, tokens := refs(settles)
	return s.changed(ctx, "quarantine", quarantineSQL, ids, tokens,
		column(settles, func(h *Hold) string { return h.Cause.String() }),
		column(settles, func(h *Hold) bool { return h.First }),
		column(settles, func(h *Hold) string { return h.code() }))
}
