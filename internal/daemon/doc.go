// Package daemon runs `weir run` as a process of its own and looks at it from outside: over HTTP for what
// it knows, through /proc for what it costs. The demo and the benchmarks use it, so that what they show is
// the program that people run.
//
//	Start ──> AwaitStreaming ──> … ──> Stop (in order) or Kill (as a crash does)
//
// A Relay belongs to the process that started it and is to be ended by it. It inherits no environment:
// nothing that is set there may reach a relay that is meant to be private.
package daemon
