package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// run measures, or is the process of a peer that a measurement started.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == workCommand {
		return work(ctx, args[1:])
	}
	var log strings.Builder
	o := options{log: &log, progress: func(step string) { fmt.Fprintln(stderr, step) }}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.weir, "weir", "", "weir's `executable` (default: built from this checkout)")
	flags.StringVar(&o.postgresDir, "dir", "", "`folder` for the private Postgres (default: in memory, where an fsync costs nothing)")
	flags.Float64Var(&o.rate, "rate", 200, "latency: items a `second`")
	flags.DurationVar(&o.slice, "slice", 5*time.Second, "latency: how long a turn is")
	flags.IntVar(&o.items, "items", 20_000, "drain: `items` of a backlog")
	flags.DurationVar(&o.delay, "delay", 50*time.Millisecond, "calls: what each answer of the receiver takes")
	flags.IntVar(&o.calls, "calls", 500, "calls: `items` of a backlog")
	flags.IntVar(&o.rounds, "rounds", 3, "turns that each peer has")
	flags.StringVar(&o.only, "only", "", "measure weir and the peers whose name and settings match this `expression`")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	result, err := measure(ctx, o)
	if err != nil {
		if log.Len() > 0 {
			fmt.Fprintf(stderr, "What the peers said:\n%s\n", log.String())
		}
		return err
	}
	if *asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	return result.print(stdout)
}
