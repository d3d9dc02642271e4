package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weir-relay/weir/internal/demo"
	"github.com/weir-relay/weir/internal/postgres"
)

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	var rate int
	c := &cobra.Command{
		Use:   "demo",
		Short: "See it work: a private Postgres, a stand-in for Stripe, and a relay that is killed",
		Long: `Relay some thousand records of made-up usage with nothing that is yours: Postgres is a
private cluster, Stripe is weir's stand-in, which loses an answer in a hundred and fails as
many requests, and the relay is killed with SIGKILL in the middle and started again.

The first table at the end is taken from the stand-in's ledger, not from weir's own tables.
The second is what weir finds in Stripe's books afterwards: items confirmed by its sums, usage
that somebody reported past weir, a refusal that came later, a correction, an item in doubt.
The exit code is 0 only if every eligible record was billed exactly once.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.demo(c.Context(), keep, rate) },
	}
	c.Flags().BoolVar(&keep, "keep", false, "leave everything running at the end, until Ctrl-C")
	c.Flags().IntVar(&rate, "rate", 500, "records enqueued a `second`")
	return c
}

func (a *app) demo(ctx context.Context, keep bool, rate int) error {
	if rate < 1 {
		return usagef("--rate %d: need at least 1 record a second", rate)
	}
	if _, err := postgres.Find(ctx); errors.Is(err, postgres.ErrNotInstalled) {
		fmt.Fprintln(a.stderr, "No Postgres server programs here: installing them.")
		if err := postgres.Install(ctx, a.stderr); err != nil {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find weir's own executable: %w", err)
	}
	var log strings.Builder
	screen := newScreen(a.stderr)
	d, err := demo.Start(ctx, demo.Options{Program: program, Log: &log, Progress: screen.show, Rate: rate})
	if err != nil {
		screen.end()
		return fmt.Errorf("set up the demo: %w", err)
	}
	report, err := d.Run(ctx)
	screen.end()
	if err == nil {
		err = a.emit(report, func(w io.Writer) { printReport(w, report) })
	}
	if err == nil && keep {
		printKept(a.stderr, program, d)
		<-ctx.Done()
	}
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "What the relay said:\n%s\n", log.String())
	}
	return errors.Join(err, d.Close())
}

// printReport prints the table at the end.
func printReport(w io.Writer, r *demo.Report) {
	row := func(name string, value any, remark string) []string { return []string{name, fmt.Sprint(value), remark} }
	ms := func(v float64) string { return fmt.Sprintf("%.2f ms", v) }
	rows := [][]string{
		row("enqueued", r.Enqueued, "committed by the producer"),
		row("billed once", r.BilledOnce, fmt.Sprintf("of %d eligible, by the stand-in's ledger", r.Eligible)),
		row("billed twice", r.BilledTwice, "must be 0"),
		row("lost", r.Lost, "must be 0"),
		row("quarantined", r.Quarantined, "held for a person: an ineligible record, an unknown meter"),
		row("rejected", r.Rejected, ""),
		row("uncertain", r.Uncertain, ""),
		row("commit → Stripe p50", ms(r.CommitToSend.P50), fmt.Sprintf("%d records, while a relay ran", r.CommitToSend.Items)),
		row("commit → Stripe p99", ms(r.CommitToSend.P99), ""),
		row("  through the crash", ms(r.Interrupted.Max), fmt.Sprintf("at most, %d records; no relay for %.0f ms", r.Interrupted.Items, r.Outage)),
		row("replication lag", fmt.Sprintf("%d B", r.ReplicationLagBytes), "at the end"),
	}
	for name, n := range r.Faults {
		rows = append(rows, row("fault", n, name))
	}
	rows = append(rows, row("requests", r.Requests, fmt.Sprintf("to Stripe's stand-in, in %.1f s", r.Seconds)))
	table(w, nil, rows)
	printEvidence(w, r.Evidence)
}

// printEvidence prints what became of items after Stripe had taken them.
func printEvidence(w io.Writer, e *demo.Evidence) {
	fmt.Fprintln(w, "\nAfterwards, with a few items more that go wrong on purpose:")
	rows := [][]string{
		{"confirmed", fmt.Sprint(e.Confirmed), "by Stripe's own sums of the hours that are over"},
		{"drift", fmt.Sprint(len(e.Drifts)), "one is meant: somebody reported usage past weir"},
	}
	for _, d := range e.Drifts {
		rows = append(rows, []string{"", "", fmt.Sprintf("%s on %s: weir has %s, Stripe %s", d.Customer, d.Meter, d.Weir, d.Stripe)})
	}
	rows = append(rows,
		[]string{"refused later", e.Rejected, "Stripe took it, and its error report named it: no such customer"},
		[]string{"correction", e.Cancelled, "an event that was cancelled"},
		[]string{"in doubt", e.Recovered, "no answer ever came; Stripe's sum shows that it has arrived"},
	)
	table(w, nil, rows)
}

// printKept says what is running and what one can do with it.
func printKept(w io.Writer, program string, d *demo.Demo) {
	fmt.Fprintf(w, `
Everything is still running. In another terminal:

  export WEIR_CONFIG=%[2]s
  %[1]s status
  %[1]s list --attention
  %[1]s doctor
  psql '%[3]s' -c "SELECT id, state, identifier FROM weir.items LIMIT 5"
  curl %[4]s/metrics
  curl %[5]s/_sandbox/summary

Ctrl-C ends it and removes everything.
`, program, d.Config(), d.URL(), d.Listen(), d.Stripe())
}

// screen shows progress: on a terminal one line that is written over, elsewhere a line a step.
type screen struct {
	w        io.Writer
	terminal bool
	step     string
	began    time.Time
}

func newScreen(w io.Writer) *screen {
	file, ok := w.(*os.File)
	return &screen{w: w, terminal: ok && term.IsTerminal(int(file.Fd())), began: time.Now()}
}

func (s *screen) show(p demo.Progress) {
	changed := p.Step != "" && p.Step != s.step
	if changed {
		s.step = p.Step
	}
	line := fmt.Sprintf("%5.1fs  %-34s", time.Since(s.began).Seconds(), s.step)
	if p.Total > 0 {
		line += fmt.Sprintf("  enqueued %5d/%d  billed %5d", p.Enqueued, p.Total, p.Billed)
	}
	switch {
	case s.terminal && changed:
		fmt.Fprintf(s.w, "\r\033[K%s\n", line)
	case s.terminal:
		fmt.Fprintf(s.w, "\r\033[K%s", line)
	case changed:
		fmt.Fprintln(s.w, line)
	}
}

// end leaves the line as it is.
func (s *screen) end() {
	if s.terminal {
		fmt.Fprint(s.w, "\r\033[K")
	}
}
