// Command weir relays committed usage from a Postgres outbox to Stripe. Run weir help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// The process's signals and environment are touched here and nowhere else.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
