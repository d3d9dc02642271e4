// Package sandbox is a Stripe for tests: the metering part of its API with state, its own clock, faults on demand,
// and a ledger that says what was billed. It is an http.Handler and needs nothing else of weir.
//
// An event is identified by account, mode (live or test) and its identifier. An account and a mode together are a
// world; worlds share nothing. The ledger is authoritative for what was billed: Entry.Billed is the number of distinct
// usage events under an identifier, and 2 means that a customer pays twice.
//
//	          Handler / StreamHandler
//	request ─► down? ─► faults that don't read ─► body ─► key → world ─► note in the ledger
//	        ─► faults before ─► rate limit ─► idempotency key ─► lane of (customer, meter)
//	        ─► validate, identifier taken?, accept ─► faults after ─► answer
//	                                          └─► refused asynchronously ─► error report ─► webhook
//
// Invariants:
//   - Every request whose identifier could be read is counted in Entry.Received, whatever became of it.
//   - An identifier is accepted at most once in a uniqueness window; a second acceptance counts in Totals.BilledAgain.
//   - An answer is kept under its Idempotency-Key before it is written, so a client that lost it gets the same again.
//   - Sandbox time (Now, Advance) decides every window. The wall clock appears in Entry.FirstReceived and in
//     webhook signatures only.
//
// The admin endpoints under /_sandbox/ need no key, and neither faults nor Down touch them:
//
//	GET    health, clock, summary, faults
//	GET    ledger                           NDJSON of Entry; ?identifier=ID picks one, ?again=1 those billed twice
//	POST   clock {"advance":"25h"}          or {"set":"2026-03-04T12:00:00Z"}
//	POST   faults {"match":{"customer":"cus_*","first":2},"action":{"kind":"reset","when":"after"}}, or a list
//	DELETE faults, faults/{id}
//	POST   down {"down":true}               RST for every API request
//	POST   seed {"meters":[…],"customers":[…]}
//	POST   publish                          close error reports and deliver webhooks now
//	POST   reset
//
// Nothing is stored: a sandbox that ends has forgotten everything.
//
// Where Stripe's documentation is silent, Behaviour has a switch; its defaults are what users have reported.
package sandbox
