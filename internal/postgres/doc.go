// Package postgres runs a private Postgres cluster: initdb, one postmaster, one
// folder, nothing shared with a server that the machine may already have. The
// demo, the benchmarks and the tests use it; the relay itself never does.
//
// A cluster is identified by its folder, and belongs to the process that started
// it. While that process lives it holds a lock on the folder's lock file.
//
//	Find ── Binaries ──> Start ──> running ──Crash, Kill──> down ──Restart──> running
//	                                  └────────Stop────────> gone (folder removed)
//
// Invariants:
//
//   - a postmaster never outlives the process that started it (Linux), however
//     that process ended;
//   - a folder whose lock is free belongs to nobody: the next Start removes it;
//   - only this user reaches the server: the socket lies in a 0700 folder, and
//     loopback TCP asks for a password that was made up at Start.
//
// On failure an error carries the end of the server's own log, since that is
// where Postgres says what it disliked.
//
// See "Server Setup and Operation" in the Postgres manual (chapter 19) for the
// signals and settings used here.
package postgres
