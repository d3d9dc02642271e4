// Package bench measures weir as people run it: `weir run` as a process of its own, against a real Postgres.
//
// What a figure is worth depends on the machine, so no figure stands alone. Each measurement has a reference,
// the least that could do the job, taken in the same run, in turns with weir:
//
//	latency   floor    one goroutine: a bare pgoutput read, one claim, one POST
//	drain     ceiling  the claim and accept statements, run bare on the same number of connections
//	idle      nothing  a relay with nothing to do should ask for nothing
//	memory    nothing  a relay's memory should not depend on the backlog
//	soak      nothing  a load for a time: what was lost, what was billed twice
//
// Producers are an open loop: each item has its intended time, and a late one is not left out. The stand-in
// for Stripe is authoritative for when a request came, Postgres for when a transaction committed; both run on
// this machine, so their clocks are one.
package bench
