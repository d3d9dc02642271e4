// Package checkpoint remembers what the stream has seen: a position in the log, and how many items
// stand in each state at exactly that position.
//
// A position is identified by slot, system identifier and timeline; in another log it means nothing. The
// database's tables are authoritative for items: a checkpoint only counts them, and losing it costs one
// count. The Book is fed by the stream's goroutine and written down by its own:
//
//	stream ──Begin, Change…, Commit──▶ Book (memory) ──once a second──▶ weir.checkpoints
//	   ▲                                                                     │
//	   └───────────────────────── Confirmed ◀───────────────────────────────┘
//
// # Invariants
//
//   - Position and counts are one row, written by one statement.
//   - The counts are those after every transaction that ended at or before the position, and no other.
//   - Confirmed <= the position in the row: the server forgets only what has been counted durably.
//   - A slot's snapshot is read only once every transaction that it shows has ended: reading a row earlier
//     could lose it. See ended.
//   - The row moves forward only, except by Rebase, which counts anew at a new slot's snapshot.
//
// # Failure
//
// A Book that can't write keeps counting, and Confirmed stays: the server keeps the log meanwhile. After a
// crash the stream goes on from the row, and what came after it is read and counted again. Where the row is
// missing, or belongs to another log, Resume answers 0 and the stream makes a new slot. A DELETE that nobody
// announced, or an UPDATE without from_state, makes the counts inexact: the row says so, also after a restart,
// until Audit has found by how much and put them right. A write that was lost in flight may still reach the
// server after a restart: its counts are right for its position, and the row waits there until it is overtaken.
package checkpoint
