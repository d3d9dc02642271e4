package machine

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// What comes after the delivery: evidence (T7, T10) and people (T8, T9, T11). The transitions of people
// are written to weir.operations in the same statement.

const confirmSQL = `
UPDATE weir.deliveries d
   SET state = 'confirmed',
       from_state = 'accepted',
       confirmed_at = clock_timestamp()
 WHERE d.id = ANY ($1::bigint[])
   AND d.state = 'accepted'
RETURNING d.id`

// Confirm records that the items were found in the provider's books (T7). It answers the ids it changed.
func (s *Store) Confirm(ctx context.Context, ids []int64) ([]int64, error) {
	return s.changed(ctx, "confirm", confirmSQL, ids)
}

// Refusal is an accepted item that the provider's own error report names. Reports speak of identifiers.
type Refusal struct {
	Identity [32]byte
	Cause
}

// Identities say nothing about ids, in whose order every statement locks.
const reportSQL = `
WITH named AS MATERIALIZED (
    SELECT o.id, s.cause
      FROM unnest($1::bytea[], $2::text[]) AS s (identity, cause)
      JOIN weir.outbox o ON o.identity = s.identity
     ORDER BY o.id
)
UPDATE weir.deliveries d
   SET state = 'rejected',
       from_state = 'accepted',
       last_error = n.cause
  FROM named n
 WHERE d.id = n.id
   AND d.state = 'accepted'
RETURNING d.id`

// Report records that the provider refused the items after it had accepted them (T10). It answers the ids
// it changed.
func (s *Store) Report(ctx context.Context, refusals []Refusal) ([]int64, error) {
	return s.changed(ctx, "report", reportSQL,
		column(refusals, func(r *Refusal) []byte { return r.Identity[:] }),
		column(refusals, func(r *Refusal) string { return r.Cause.String() }))
}

// Operator is a person, and why they do what they do. Both are kept.
type Operator struct {
	Actor  string
	Reason string
}

// Validate demands both.
func (o Operator) Validate() error {
	switch {
	case o.Actor == "":
		return errors.New("who does it is not said: name the actor")
	case o.Reason == "":
		return errors.New("why it is done is not said: give a reason")
	}
	return nil
}

const recoverSQL = `
WITH changed AS (
    UPDATE weir.deliveries d
       SET state = $3,
           from_state = 'uncertain',
           attempts = CASE $3 WHEN 'pending' THEN 0 ELSE d.attempts END,
           first_attempt_at = CASE $3 WHEN 'pending' THEN NULL ELSE d.first_attempt_at END,
           next_attempt_at = CASE $3 WHEN 'pending' THEN clock_timestamp() ELSE d.next_attempt_at END,
           accepted_at = CASE $3 WHEN 'accepted' THEN clock_timestamp() END
     WHERE d.id = $1
       AND d.state = 'uncertain'
       AND d.lease_token = $2
    RETURNING d.id
)
INSERT INTO weir.operations (actor, action, item_id, from_state, to_state, reason)
SELECT $4, 'recover', id, 'uncertain', $3, $5 FROM changed
RETURNING item_id`

// Recover settles an uncertain item the way a person has decided (T8): RecoverAccept, RecoverRetry or
// RecoverReject. ref holds the token that the person saw. RecoverRetry starts attempts and horizon anew:
// where the item did arrive and the provider has forgotten its identifier, it is billed twice, which is why
// only a person may do it.
//
// Errors: *TransitionError for another event; *StateMismatchError where the item has moved; ErrNotFound.
func (s *Store) Recover(ctx context.Context, ref Ref, event Event, by Operator) error {
	to, err := Next(Uncertain, event)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return s.operate(ctx, "recover", by, ref.ID, Uncertain, recoverSQL, ref.ID, ref.Token, string(to), by.Actor, by.Reason)
}

const requeueSQL = `
WITH changed AS (
    UPDATE weir.deliveries d
       SET state = 'pending',
           from_state = 'quarantined',
           next_attempt_at = clock_timestamp(),
           quarantine_reason = NULL,
           last_error = NULL
      FROM weir.outbox o
     WHERE o.id = d.id
       AND d.id = $1
       AND d.state = 'quarantined'
       AND o.mapping_version = $2
       AND d.abandoned_at IS NULL
    RETURNING d.id
)
INSERT INTO weir.operations (actor, action, item_id, from_state, to_state, reason)
SELECT $3, 'requeue', id, 'quarantined', 'pending', $4 FROM changed
RETURNING item_id`

// Requeue makes a quarantined item due after a person has fixed the cause (T9). mappingVersion is the one
// under which they expect it to have been staged.
//
// Errors: ErrMappingChanged; *StateMismatchError where the item has moved or is abandoned; ErrNotFound.
func (s *Store) Requeue(ctx context.Context, id int64, mappingVersion string, by Operator) error {
	err := s.operate(ctx, "requeue", by, id, Quarantined, requeueSQL, id, mappingVersion, by.Actor, by.Reason)
	var mismatch *StateMismatchError
	if errors.As(err, &mismatch) && mismatch.Current == Quarantined && !mismatch.Abandoned {
		known, kerr := s.changed(ctx, "requeue", `SELECT id FROM weir.outbox WHERE id = $1 AND mapping_version <> $2`, id, mappingVersion)
		if kerr != nil {
			return kerr
		}
		if len(known) > 0 {
			return fmt.Errorf("requeue item %d: %w than %q", id, ErrMappingChanged, mappingVersion)
		}
	}
	return err
}

const abandonSQL = `
WITH changed AS (
    UPDATE weir.deliveries d
       SET from_state = d.state,
           abandoned_at = clock_timestamp(),
           abandoned_by = $3,
           abandon_reason = $4
     WHERE d.id = $1
       AND d.state = $2
       AND d.abandoned_at IS NULL
    RETURNING d.id, d.state
)
INSERT INTO weir.operations (actor, action, item_id, from_state, to_state, reason)
SELECT $3, 'abandon', id, state, state, $4 FROM changed
RETURNING item_id`

// Abandon records that a rejected or quarantined item will never be sent (T11).
//
// Errors: *TransitionError for another state; *StateMismatchError where the item has moved or is abandoned
// already; ErrNotFound.
func (s *Store) Abandon(ctx context.Context, id int64, expected State, by Operator) error {
	if _, err := Next(expected, Abandon); err != nil {
		return fmt.Errorf("abandon: %w", err)
	}
	return s.operate(ctx, "abandon", by, id, expected, abandonSQL, id, string(expected), by.Actor, by.Reason)
}

// operate runs a person's transition of one item and, where it changed nothing, says what stands there.
func (s *Store) operate(ctx context.Context, step string, by Operator, id int64, expected State, sql string, args ...any) error {
	if err := by.Validate(); err != nil {
		return fmt.Errorf("%s item %d: %w", step, id, err)
	}
	ids, err := s.changed(ctx, step, sql, args...)
	if err != nil {
		return err
	}
	if len(ids) == 1 {
		return nil
	}
	rows, err := s.db.Query(ctx, `SELECT state, lease_token, abandoned_at IS NOT NULL FROM weir.deliveries WHERE id = $1`, id)
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	current := StateMismatchError{ID: id, Expected: expected}
	_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(&current.Current, &current.Token, &current.Abandoned)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s item %d: %w", step, id, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return fmt.Errorf("%s: %w", step, &current)
}
