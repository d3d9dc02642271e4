// Package stripe reports items to Stripe: usage as meter events, one by one (POST /v1/billing/meter_events) or in
// batches by the meter event stream, and cancellations as adjustments.
//
// What identifies an event is its identifier, machine.Item.Identifier, a pure function of the item's
// identity. Stripe refuses a second event with the same identifier for at least 24 hours, and that refusal
// is how a resend learns that an earlier attempt had arrived. The database is authoritative for whether an
// item may be sent at all; this package only says what an answer means.
//
//	item ──read, by payload and mapping──► event ──admit──► POST, once ──► answer ──rules──► outcome
//	                   │                             │
//	              quarantined           quarantined, or a retry when its time comes
//
// # The payload
//
// What a producer writes into weir.outbox.payload, a JSON object. For usage:
//
//	| field          | type                     | need | meaning                                               |
//	|----------------|--------------------------|------|-------------------------------------------------------|
//	| customer       | string, 1–100 characters | yes  | Stripe's customer, as in cus_…                        |
//	| meter          | string, 1–100 characters | one  | the meter's event_name                                |
//	| feature        | string, 1–100 characters | of   | what Config.Mapping turns into a meter; not used,     |
//	|                |                          | them | where there is a meter                                |
//	| value          | number, also in a string | yes  | the usage, at most 15 digits and 12 decimals; a       |
//	|                |                          |      | negative one corrects                                 |
//	| timestamp      | RFC 3339, or integer     | yes  | when the usage happened; an integer is Unix seconds   |
//	| dimensions     | object of strings        | no   | further payload keys for Stripe                       |
//	| period_start   | as timestamp             | no   | when the usage's period began, for a feature's Since; |
//	|                |                          |      | the timestamp stands in for it                        |
//	| attribution    | string                   | no   | "unresolved": whose usage it is isn't known           |
//	| original       | string                   | no   | the identifier of the event that this one corrects    |
//	| original_state | string                   | no   | "billed", or why that event wasn't                    |
//	| any other      | any                      | no   | for people; not sent                                  |
//
// Field names are matched exactly; null is like an absent field. The value is never a float on its way: it
// is read as a decimal and sent as a plain one, without exponent or trailing zeros. The timestamp is always
// sent, without its fraction of a second, so that usage lands in the period in which it happened and not in
// the one in which it arrived.
//
// An item with the subject_kind "adjustment" cancels an event instead:
//
//	| field          | type                     | need | meaning                                               |
//	|----------------|--------------------------|------|-------------------------------------------------------|
//	| cancel         | string, 1–100 characters | yes  | the identifier of the event                           |
//	| meter, feature | as above                 | one  | the event's meter                                     |
//	| received_at    | as timestamp             | no   | when Stripe got the event; needed for events that     |
//	|                |                          |      | aren't items of this outbox                           |
//	| original_state | as above                 | no   | "billed" stands in for an original that is gone       |
//
// # Corrections
//
// Usage with a negative value corrects what was billed too much, in any open period. A cancellation takes one event
// back, which Stripe does for 24 hours after it got the event. Both wait for the original that they name, if
// Config.Originals knows it: while it is open or uncertain they are postponed, and where it was never billed they are
// original_ineligible. The window is measured from the original's first attempt by the database's clock, since a lost
// answer may have been the one that counted, and an hour of it is left alone. Outside of it the cancellation is
// quarantined (adjustment_window), never dropped: abandon it, and enqueue a negative value.
//
// # Why items are quarantined
//
// Before anything is sent:
//
//	| reason                                       | mend it by                                                        |
//	|----------------------------------------------|-------------------------------------------------------------------|
//	| attribution_unresolved, original_ineligible  | nothing: the producer enqueues another item, once it knows better |
//	| payload_invalid, no_…, …_invalid             | nothing: a payload never changes; abandon, and enqueue another    |
//	| feature_unmapped                             | mapping the feature                                               |
//	| mapping_changed                              | listing the item's mapping_version in Mapping.Accepts             |
//	| feature_buffered, period_buffered            | the feature's cutover, if the former reporter didn't report it    |
//	| mode_mismatch, account_mismatch, no_account  | the lane's key or account, if it is the lane that is wrong        |
//	| invalid_value, dimensions_invalid            | the feature's format or dimensions, if those are wrong            |
//	| timestamp_window                             | nothing: Stripe takes usage of the past 35 days, and weir none    |
//	|                                              | of more than a day ahead                                          |
//	| adjustment_window, no_received_at            | nothing: enqueue a negative value                                 |
//	| meter_unknown, meter_inactive                | the meter, in Stripe                                              |
//	| meter_preaggregated, meter_keys              | another meter; the configured payload keys                        |
//
// After Stripe has refused it: meter_inactive, customer_not_found, no_customer, no_value, adjustment_window,
// original_not_found, or the code that Stripe gives.
//
// A requeued item is read anew: by the mapping, the meters and the clock of that moment. The mapping version under
// which it was staged stays its own, and decides (mapping_changed) as before. Items whose payload names a meter have
// been mapped by their producer, and their mapping version is nobody's business here.
//
// Usage of the future waits, unsent, until Stripe would take it, if that is within a day: windows are often stamped
// with their end, and clocks differ.
//
// # Meters
//
// Inspect reads the account's meters. What is wrong with a meter holds its items, and theirs alone; what is wrong with
// the account holds the lane, and quarantines nothing. Evidence against an item is at most a minute old when it
// counts. Without an inspection, or a key that may read meters, Stripe's own answers decide.
//
// # The stream
//
// Stripe answers a batch before it validates it, so Accepted means received there; see Stream. A batch whose answer is
// lost, or can't be read, is sent again: Stripe documents that it enforces the identifiers' uniqueness in the stream
// too, for 24 hours, though not what it does with a second one. The machine's horizon ends the resends before that.
//
// # Invariants
//
//   - One attempt an item and call of Deliver: the SDK's own retries are off, redirects aren't followed. Only
//     net/http may repeat the request, unchanged, when a connection that it had kept turns out to be dead; and the
//     stream's batch is sent again, unchanged, when its session has expired, and in halves when it is refused.
//   - Accepted only if Stripe's answer names our event: as created, as already there, as cancelled. In the stream, whose
//     answers name nothing, if it is the one that is documented.
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
