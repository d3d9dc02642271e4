// Package replication reads weir's replication slot: it is the doorbell that says where to look. It tells
// a Handler of every change of weir.deliveries within about a millisecond of its commit, and asks a Ledger
// from where to go on.
//
// A position is identified by a Source and an LSN: the slot, the server's system identifier and timeline,
// and a byte offset in that log. An LSN of another log means nothing. Who may read is decided by an
// advisory lock named after the slot, and then by the slot, which serves one connection at a time.
//
// The database is authoritative for everything. The table weir.deliveries says where an item stands, and a
// change decides nothing; the server's pg_replication_slots says what has become of the slot; the ledger
// says what has been counted. The stream itself remembers nothing that it could not do without.
//
//	              ┌──────────── connection lost, server restarted: backoff ───────────┐
//	              ▼                                                                   │
//	Run ──> Connecting ──lock──> Standby ──lock──> slot sound? ──yes──────────> Streaming ──ctx──> flush,
//	              │                                    │ no                       ▲   │           status,
//	    *PermanentError                                ▼                          │   │           CopyDone
//	              ▼                                Creating ──Ledger.Rebase───────┘   │ fuse
//	          Sweeping                                 ▲                              ▼
//	                                                   └────────── rest ────────── Sweeping
//
// Invariants:
//
//   - 0 < confirmed <= received, confirmed <= what the ledger has made durable, and none of them falls
//     within a stream. Only confirmed is told to the server.
//   - Between Started and Stopped the handler is told every change once, in the log's order. No change is
//     left out: none by its LSN, none that can't be read.
//   - A transaction is never held in memory, whatever its size: one message at a time is.
//   - One goroutine owns the connection: it reads, decodes, calls the handler and answers the server.
//   - A slot is made only under the lock, only after its publication was seen, and its counts are taken at
//     exactly the point where its stream begins.
//   - Only a slot that is weir's by its name, plugin and database is ever dropped.
//
// On failure nothing is lost but time, since whoever delivers sweeps the table between Stopped and Started.
// A connection that breaks is made anew, in process, with a growing pause. A slot that is missing, lost,
// ahead of the ledger or of another log is made anew and counted anew. A server that shuts down is left, as
// it would wait for positions that can no longer be confirmed. A slot that retains more WAL than the fuse
// allows is dropped for a while. What a person has to mend ends Run with a *PermanentError and a hint.
//
// See "Streaming Replication Protocol", "Logical Streaming Replication Protocol" and "Logical Replication
// Message Formats" in the Postgres manual (sections 55.4, 55.5 and 55.9 of version 17).
package replication
