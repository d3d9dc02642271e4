// Package torture runs weir while everything around it breaks, and then holds what weir did against what
// really happened.
//
// A run is identified by its seed: one integer decides the relays, the producers' transactions, the provider's
// moods and every fault with its time. Only the machine's own timing is outside. The producers' list is
// authoritative for what was committed, the stand-in's ledger for what was billed, and a second slot, which
// only the harness reads, for what was ever written to a row.
//
//	producers ─▶ Postgres ◀─▶ links (cut, hold, delay) ◀─▶ weir run, one to three ─▶ stand-in for Stripe
//	                │ every version of every row                                        │ ledger, requests
//	                └────────────────────────────▶ check ◀──────────────────────────────┘
//
// # What is checked
//
//   - Each committed item is billed once, or stands uncertain or quarantined for a reason that is true.
//   - What was rolled back is nowhere.
//   - Every row moved along machine.Table only, its lease_token rose by one at each claim and at nothing else,
//     no claim came before its time, and no settle came from anybody but the holder of the lease.
//   - The state gauges and the checkpoint's counts are what a count finds, and an audit finds no drift.
//   - The slot was never confirmed past the checkpoint, at any moment that was looked at.
//   - All of it comes to rest soon after the last fault, and weir's processes end in order.
//
// # Failure
//
// A seed that fails leaves a folder with the timeline of its faults, the relays' logs and the history of the
// items in question. Faults reach weir only from outside, by signals, connections, the server and the provider:
// the program that is tested is the one that people run.
package torture
