// Package relay joins the parts: it listens to the doorbell, claims what is due, has it sent and writes down
// what became of it.
//
// A claim is identified by an item's id and lease_token. The tables are authoritative for everything; what
// a relay holds in memory is a list of places to look at, which it may lose at any moment.
//
//	write-ahead log ─▶ replication ─┬─▶ doorbell ─▶ Lane: agenda ─▶ claim ─▶ deliver ─▶ settle ─▶ tables
//	      ▲                         └─▶ checkpoint.Book                                            │
//	      └────────────────────────────────────────────────────────────────────────────────────────┘
//
// There is one Lane an exporter. Several relays may work on one database: they share the items by SKIP
// LOCKED, one of them streams, and the others poll until the slot is theirs.
//
// # Invariants
//
//   - An item is sent only under a claim whose lease outlasts the send.
//   - Every outcome is written under its claim's token, or not at all.
//   - An id that was put into an agenda stays there, or a sweep is owed, until its row has been seen.
//   - A sweep that is owed is done only when no transaction that was running at its request can hide rows.
//   - Memory is bounded, whatever the backlog: more wakes than fit become a sweep.
//
// # Failure
//
// Without the stream the lanes poll. Without the database nothing is claimed, and outcomes wait. Without the
// provider the lane's gate closes, and single items probe it: an outage eats no attempts. A relay that
// dies leaves its leases to expire; the resend carries the same identifier. A relay that was frozen past its
// leases sends nothing when it wakes, and its late outcomes are refused by the fence.
package relay
