// Package demo runs weir's main job on made-up usage, with everything else private to it: a Postgres
// cluster, a stand-in for Stripe, and the relay as a process of its own, which is killed in the middle.
//
//	examples.Usage ─▶ producer ─▶ Postgres ─▶ weir run (killed once, started again) ─▶ sandbox
//	                     └──────────────────────── Report ◀───────────────────────────────┘
//
// The stand-in's ledger is authoritative for what was billed, and the producer's own list for what was
// enqueued; weir's tables are asked only what became of items that were not billed. Stripe misbehaves a
// little all the while: answers get lost, and requests fail.
package demo
