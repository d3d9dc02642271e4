package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/internal/bench"
)

func (a *app) benchCommand() *cobra.Command {
	var o bench.Options
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure latency, throughput and cost, beside what the machine can do at all",
		Long: `Measure a relay that runs as a process of its own, as weir run does, against a private
Postgres, or against the empty database that --database-url names.

No figure says much alone: each measurement takes a reference in the same run, in turns with
weir, and prints both and their ratio.`,
		Args: unknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags := c.PersistentFlags()
	flags.StringVar(&o.Dir, "dir", "", "`folder` for the private Postgres (default: in memory, where an fsync costs nothing)")
	flags.BoolVar(&o.Force, "force", false, "use a database that has items already")
	flags.IntVar(&o.Settled, "settled", 0, "put so many settled `items` into the tables first")
	c.AddCommand(a.benchLatency(&o), a.benchDrain(&o), a.benchIdle(&o), a.benchMemory(&o), a.benchSoak(&o))
	return c
}

func (a *app) benchLatency(o *bench.Options) *cobra.Command {
	l := bench.LatencyOptions{}
	c := &cobra.Command{
		Use:   "latency",
		Short: "From the commit to the provider's door, beside a bare loop that does only that",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l.Options = *o
			return measure(c.Context(), a, &l.Options, func(ctx context.Context) (*bench.Latency, error) { return bench.MeasureLatency(ctx, l) })
		},
	}
	c.Flags().Float64Var(&l.Rate, "rate", 500, "items a `second`")
	c.Flags().IntVar(&l.Rounds, "rounds", 5, "turns that floor and weir each have")
	c.Flags().DurationVar(&l.Slice, "slice", 5*time.Second, "how long a turn is")
	return c
}

func (a *app) benchDrain(o *bench.Options) *cobra.Command {
	d := bench.DrainOptions{}
	c := &cobra.Command{
		Use:   "drain",
		Short: "How fast a backlog goes, beside the same statements run bare",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d.Options = *o
			return measure(c.Context(), a, &d.Options, func(ctx context.Context) (*bench.Drain, error) { return bench.MeasureDrain(ctx, d) })
		},
	}
	c.Flags().IntVar(&d.Items, "items", 200_000, "`items` of each backlog")
	c.Flags().IntVar(&d.Rounds, "rounds", 3, "backlogs that the ceiling and weir each drain")
	c.Flags().BoolVar(&d.NoSlot, "no-stream", false, "let weir drain without reading the log")
	return c
}

func (a *app) benchIdle(o *bench.Options) *cobra.Command {
	i := bench.IdleOptions{}
	c := &cobra.Command{
		Use:   "idle",
		Short: "What a relay with nothing to do asks of the database",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			i.Options = *o
			return measure(c.Context(), a, &i.Options, func(ctx context.Context) (*bench.Idle, error) { return bench.MeasureIdle(ctx, i) })
		},
	}
	c.Flags().DurationVar(&i.For, "for", time.Minute, "how long nothing happens")
	return c
}

func (a *app) benchMemory(o *bench.Options) *cobra.Command {
	m := bench.MemoryOptions{}
	c := &cobra.Command{
		Use:   "memory",
		Short: "How much memory a relay takes while the provider is down and items pile up",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m.Options = *o
			return measure(c.Context(), a, &m.Options, func(ctx context.Context) (*bench.Memory, error) { return bench.MeasureMemory(ctx, m) })
		},
	}
	c.Flags().IntVar(&m.Items, "items", 1_000_000, "`items` that wait")
	c.Flags().DurationVar(&m.Hold, "hold", 15*time.Second, "how long the relay is watched with them")
	return c
}

func (a *app) benchSoak(o *bench.Options) *cobra.Command {
	s := bench.SoakOptions{}
	c := &cobra.Command{
		Use:   "soak",
		Short: "Hold a load, and see whether anything is lost or billed twice",
		Long: `Hold a load for a time, against a stand-in for Stripe that takes its time. The exit code is
not 0 if an item was lost or billed twice, by the stand-in's ledger.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s.Options = *o
			var found *bench.Soak
			err := measure(c.Context(), a, &s.Options, func(ctx context.Context) (_ *bench.Soak, err error) {
				found, err = bench.MeasureSoak(ctx, s)
				return found, err
			})
			if err != nil {
				return err
			}
			return found.Err()
		},
	}
	c.Flags().Float64Var(&s.Rate, "rate", 1000, "items a `second`")
	c.Flags().DurationVar(&s.For, "for", time.Minute, "how long")
	c.Flags().DurationVar(&s.Latency, "latency", 200*time.Millisecond, "what each answer of the stand-in takes")
	c.Flags().BoolVar(&s.Stream, "stream", false, "send by the meter event stream")
	c.Flags().IntVar(&s.Together, "together", 1, "items that the producer commits in one transaction")
	return c
}

// report is what a measurement ends with.
type report interface{ Rows() [][]string }

// measure runs a measurement and prints what it found.
func measure[R report](ctx context.Context, a *app, o *bench.Options, run func(context.Context) (R, error)) error {
	if a.databaseURL != "" {
		o.URL = a.databaseURL
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find weir's own executable: %w", err)
	}
	var log strings.Builder
	o.Program, o.Log = program, &log
	o.Progress = func(step string) { fmt.Fprintf(a.stderr, "%s\n", step) }
	r, err := run(ctx)
	if err != nil {
		if log.Len() > 0 {
			fmt.Fprintf(a.stderr, "What the relay said:\n%s\n", log.String())
		}
		return err
	}
	return a.emit(r, func(w io.Writer) { table(w, nil, r.Rows()) })
}
