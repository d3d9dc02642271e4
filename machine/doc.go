// Package machine is the state machine of an item and the only code that moves one.
//
// A claim is identified by the item's id and lease_token, a counter that rises at every claim. The database
// is authoritative for everything: who holds an item (FOR UPDATE SKIP LOCKED), whose write wins (lease_token),
// what is due and what is past its horizon (clock_timestamp() on both sides of every comparison). Nothing
// that a relay remembers, and nothing that the log tells, decides a transition.
//
//	           enqueue                                stage
//	              │                                     │
//	              ▼                                     ▼
//	┌─────────▶ pending ◀───────────requeue──────── quarantined
//	│             │ claim                               ▲
//	│ retry       ▼                                     │
//	└────────── leased ─────────────quarantine──────────┘
//	              │ │ └───reject────▶ rejected ◀──report── accepted
//	              │ └─────doubt─────▶ uncertain ──recover─▶ accepted, pending, rejected
//	              └───────accept────▶ accepted ──confirm──▶ confirmed
//
// A person may also abandon what is rejected or quarantined: it is marked, and closed where it stands.
//
// # Invariants
//
//   - Every transition is one conditional UPDATE whose last lines are its fence. Zero rows mean: too late.
//   - lease_token only rises; a settle under an old token changes nothing.
//   - attempts rises at the claim, so that a crash counts; only a request that provably wasn't sent, or an
//     outage that says nothing about the item, is taken back.
//   - first_attempt_at is the first attempt that may have reached the provider, and no later one moves it.
//   - Nothing automatic leaves rejected, confirmed, uncertain or quarantined.
//   - Exhaustion is uncertain, never rejected: it is no evidence that the provider refused anything.
//   - from_state is the state that the last transition left, so that a reader of the log can count.
//
// # Failure
//
// A relay that dies leaves its items leased; they are free again when the lease has expired. A settle whose
// answer was lost may be repeated: it finds its row settled and changes nothing. An error of the database
// leaves items where they were.
package machine
