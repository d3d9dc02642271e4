// Peers measures weir beside other ways to get a committed row to an HTTP API: River, watermill-sql and a
// plain poller. All do the same work in the same run, in turns, on one private Postgres and against one
// receiver. It is a module of its own, so that what the peers depend on isn't weir's.
//
//	usage row + enqueue ── COMMIT ──> peer's process ── POST ──> receiver     latency
//	backlog ── COMMIT ──> peer's process ── nothing ──> recorded as done      drain
//	backlog ── COMMIT ──> peer's process ── POST ──> slow receiver ──> done   calls
//
// A turn has a database of its own, dropped behind it, and the peer a process of its own: weir runs as `weir
// run`, the libraries in this program started anew. Postgres is authoritative for when a transaction
// committed, also the one that recorded the last item as done; the receiver for when a request came.
//
// Peers differ in what they do for an item, so the figures say what a choice costs, not who is better:
// README.md has what each does and doesn't.
package main
