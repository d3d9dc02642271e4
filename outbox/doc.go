// Package outbox is what a Go producer imports: it writes billable facts into weir's outbox, in the
// transaction that the producer already has.
//
// An item is identified by seven texts (see Item). Their hash is the identifier on which the provider
// deduplicates, so enqueueing the same fact again, after a crash or by a second process, changes nothing.
// The database is authoritative for what is in the outbox; this package keeps nothing.
//
//	BEGIN ── the producer's own writes ── Enqueue ── COMMIT ──> the relay sends
//	                                         └────── ROLLBACK ──> nothing was ever there
//
// # Invariants
//
//   - One row an identity. What was there first stands.
//   - Another payload under the same identity is reported as ErrPayloadMismatch, never dropped silently.
//   - Payloads reach Postgres with every digit that they had as JSON.
//   - One round trip a call, however many items; a second one only where another producer enqueued the
//     same item at the same moment. A call may carry some thousands of items.
//
// # Failures
//
// Enqueue takes a transaction and nothing else. It never begins, commits or rolls one back.
//
// Two producers that enqueue the same new item at once wait for each other: the second goes on when the
// first has ended. Where the isolation level is REPEATABLE READ or SERIALIZABLE, the second then fails with
// SQLSTATE 40001; where both enqueue several common items in different orders, Postgres may end one of
// them with 40P01 (deadlock). In both cases repeat the whole transaction; nothing of it has happened.
//
// # Privileges
//
// The producer's role needs USAGE on schema weir, INSERT on weir.outbox, and SELECT on its columns id,
// identity and payload. A plain INSERT without this package does with USAGE and INSERT.
package outbox
