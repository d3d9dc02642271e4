// Package reconcile confirms accepted items by the provider's own books (T7), and says what those prove of uncertain ones.
//
// A bucket is the usage of one customer on one meter in one hour: exporter, mode, meter, customer, hour. The provider knows
// its number, by the meter's formula; weir knows what it has sent. The database is authoritative for the items and for what
// is confirmed of each bucket (weir.buckets); the provider is for its number. Nothing that a reconciler remembers decides.
//
//	accepted items ──gather──> buckets ──plan──> readings ──ask──> the provider's numbers
//	                                                                      │
//	       confirm, or note a drift <──judge<── what is on its way, or doubtful
//
// # Finding the items
//
// Accepted items are found by an index of those that wait, grouped in memory by bucket, and forgotten: ids and sums are
// kept, never payloads. There is no index by bucket, since each item would pay for it at its insert, and no column for it,
// since only the exporter knows which bucket a payload belongs to. Where more wait than Config.Portion, a pass looks at
// a part of them, chosen by customer and meter, so that every bucket is whole.
//
// # Reading
//
// Providers count reads. One covers a hundred hours of a customer on a meter, those who have waited longest come first, and
// what may be read an hour is kept in weir.reconcilers, over restarts and over all relays. A bucket that differs is read
// again for its own sake after a while that doubles, up to a day. Hours in which weir has nothing are looked at only when a
// person asks.
//
// # Invariants
//
//   - Equal, and nothing on its way, and no doubtful item that could make up for a missing one: all of the bucket is confirmed.
//     Otherwise nothing of it is.
//   - The provider is asked after the items are gathered, and weir's rows are looked at again after the provider was asked.
//     Whatever may have reached the provider in between has by then left a trace, and postpones the bucket.
//   - weir.buckets changes in the transaction that confirms the items, and only if it still holds what was compared.
//   - Numbers are decimals, compared in their first 15 digits: the provider's are floating point.
//   - Evidence presumes the provider's word: what it accepted is counted unless it has said otherwise since.
//   - Nothing here sends an item, or takes one out of uncertain.
//
// # What it can't see
//
// A meter that counts the last value proves that value only; the bucket's earlier items are confirmed with it. Two errors of
// equal size in one hour cancel each other. Usage that is taken back elsewhere after its hour was confirmed is seen when
// something else arrives in that hour, or when a person asks. Items under a mapping that the lane no longer accepts can't
// be read, so they are not confirmed (weir_reconcile_unreadable); nor are those on meters that pre-aggregate.
//
// # Failures
//
// A pass that fails writes down what it has found; the next goes on. One that dies is followed by another relay's when its
// interval is over. After a crash between two portions of a bucket, the bucket holds the one and the items the other.
package reconcile
