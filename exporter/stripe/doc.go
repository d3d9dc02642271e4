// Package stripe sends items to Stripe as meter events (POST /v1/billing/meter_events).
//
// What identifies an event is its identifier, machine.Item.Identifier, a pure function of the item's
// identity. Stripe refuses a second event with the same identifier for at least 24 hours, and that refusal
// is how a resend learns that an earlier attempt had arrived. The database is authoritative for whether an
// item may be sent at all; this package only says what an answer means.
//
//	item ──parse──► event ──admit──► POST, once ──► answer ──rules──► outcome
//	          │               │
//	     quarantined     quarantined, or a retry when its time comes
//
// # The payload
//
// What a producer writes into weir.outbox.payload, a JSON object:
//
//	| field      | type                     | need | meaning                                                 |
//	|------------|--------------------------|------|---------------------------------------------------------|
//	| customer   | string, 1–100 characters | yes  | Stripe's customer, as in cus_…                          |
//	| meter      | string, 1–100 characters | yes  | the meter's event_name                                  |
//	| value      | number, also in a string | yes  | the usage, at most 15 digits and 12 decimals; a         |
//	|            |                          |      | negative one corrects                                   |
//	| timestamp  | RFC 3339, or integer     | yes  | when the usage happened; an integer is Unix seconds     |
//	| dimensions | object of strings        | no   | further payload keys for Stripe                         |
//	| any other  | any                      | no   | for people; not sent                                    |
//
// Field names are matched exactly; null is like an absent field. The value is never a float on its way: it
// is read as a decimal and sent as a plain one, without exponent or trailing zeros. The timestamp is always
// sent, without its fraction of a second, so that usage lands in the period in which it happened and not in
// the one in which it arrived.
//
// What doesn't fit is quarantined, with one of these reasons: payload_invalid, no_customer,
// customer_invalid, no_meter, meter_invalid, no_value, invalid_value, no_timestamp, timestamp_invalid,
// dimensions_invalid; then mode_mismatch, account_mismatch and timestamp_window; then, in Stripe's opinion,
// meter_inactive, customer_not_found, no_customer, no_value, or the code that Stripe gives.
//
// Stripe takes usage of the past 35 days. Usage of the future waits, unsent, until Stripe would take it, if
// that is within a day: windows are often stamped with their end, and clocks differ. A later one is a
// producer's mistake.
//
// # Invariants
//
//   - One attempt an item and call of Deliver: the SDK's own retries are off, redirects aren't followed. Only
//     net/http may repeat the request, unchanged, when a connection that it had kept turns out to be dead.
//   - Accepted only if Stripe's answer names our event: as created, or as already there.
//   - Rejected and quarantined only if no attempt, this one or an earlier one, can have been taken. Where an
//     earlier one may have been, the refusal of a later one is uncertain instead.
//   - Unsent only if no connection was ever handed to the request, or Stripe refused it unseen.
//   - Nothing that a person reads holds a key.
//
// # On failure
//
// A timeout, a lost connection, a 5xx or an answer that can't be read leave open whether Stripe took the
// event. They are worth a retry all the same, since the same identifier goes out again; the machine ends
// this at its horizon, inside Stripe's 24 hours. A refusal that this package doesn't know is quarantined
// under Stripe's code: it certainly wasn't billed, and a person can look and requeue. The rules in
// classify.go are the whole table.
//
// An answer from the other mode than the key's (livemode) is accepted, since it is true, but loud: it is
// logged, told to Config.OnModeMismatch, and from then on this Exporter sends nothing and signals
// exporter.Unauthorized.
package stripe
