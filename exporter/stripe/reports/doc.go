// Package reports takes Stripe's error reports: Stripe validates events after it has accepted them, and says later which
// of them failed.
//
// A report is identified by the id of the event that brings it, and is handled once for each lane. The database is
// authoritative for that (weir.inbox), and for what becomes of the items: an accepted item that a report names is rejected
// (T10), in the transaction that records the report.
//
//	POST ── signature ── fetch from Stripe ──> BEGIN ── First ── Report, suspects ── COMMIT ──> 200
//	  └─ 4xx: not Stripe's     └─ 502              └─ false: handled before ──────────────────> 200
//
// What arrives says only that there is a report. What is in it is always asked for over the API, with the lane's key.
//
// # Invariants
//
//   - 2xx only after the commit; whatever fails before makes Stripe send it again, for three days.
//   - A report is applied once, however often it arrives, by webhook or by polling.
//   - No item is rejected but one that a report names, and none but an accepted one.
//   - A report that an event is there already rejects nothing: the event is counted.
//
// # What a report doesn't settle
//
// Reports name samples. Failures that they don't name, and named items that aren't accepted (yet), are noted in
// weir.suspects. Package reconcile finds the former by the sums, and rejects the latter once they are accepted.
package reports
