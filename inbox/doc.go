// Package inbox lets a consumer handle each message once, although it is delivered more than once: a
// webhook that the provider repeats, an item that a relay sends again.
//
// A message is identified by the name of its consumer and the id that its sender gave it. The database is
// authoritative for what has been handled: a row of weir.inbox, written in the transaction of the effect.
//
//	BEGIN ── First ── true ──> the effect ── COMMIT ──> answer 200
//	           └───── false ─> COMMIT ────────────────> answer 200: it was handled before
//
// # Invariants
//
//   - Of all transactions that commit, First answers true in one for each consumer and message.
//   - The record and the effect commit together, or neither does.
//
// # Failures
//
// A transaction that rolls back leaves no record, so the sender's next attempt is the first again. Two
// deliveries at once wait for each other: the second goes on when the first has ended. Where the
// isolation level is REPEATABLE READ or SERIALIZABLE, the second then fails with SQLSTATE 40001:
// repeat the whole transaction.
//
// An effect outside the database, such as a mail, isn't covered: the transaction may still roll back
// after it. Enqueue it in an outbox instead.
package inbox
