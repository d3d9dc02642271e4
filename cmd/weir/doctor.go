package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/internal/config"
)

// level says how bad a finding is.
type level string

// The levels, from good to bad.
const (
	levelOK   level = "ok"
	levelNote level = "note" // worth knowing
	levelWarn level = "warn" // works, and will hurt
	levelFail level = "fail" // doesn't work
)

// finding is what one check found.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	What  string `json:"what"`
	Fix   string `json:"fix,omitempty"`
}

// doctor gathers what the checks find.
type doctor struct {
	config   *config.Config
	db       *pgxpool.Pool // nil where the database can't be reached
	app      *app
	findings []finding
}

func (d *doctor) add(check string, l level, fix, format string, args ...any) {
	d.findings = append(d.findings, finding{check, l, fmt.Sprintf(format, args...), fix})
}

// oneLine joins the lines of an error that names every address it has tried.
func oneLine(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, ":\n\t", ": "), "\n\t", "; ")
}

// trouble reports that a check itself couldn't be made.
func (d *doctor) trouble(check string, err error) {
	d.add(check, levelFail, explain(err), "couldn't be checked: %v", err)
}

func (a *app) doctorCommand() *cobra.Command {
	var offline bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check server, schema, slot, privileges and Stripe",
		Long: `Check everything that weir needs: the server and its settings, the schema, the slot, the
privileges, and what Stripe says about key and meters. It changes nothing. It ends with 3 where a
check fails.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := a.config()
			if err != nil {
				return err
			}
			if _, err := a.url(); err != nil {
				return err
			}
			d := &doctor{config: settings, app: a}
			d.examine(c.Context(), offline)
			return d.report()
		},
	}
	c.Flags().BoolVar(&offline, "no-stripe", false, "don't ask Stripe")
	return c
}

// examine makes all checks that can be made.
func (d *doctor) examine(ctx context.Context, offline bool) {
	for _, warning := range d.config.Warnings() {
		d.add("config", levelWarn, "", "%s", warning)
	}
	pool, err := d.app.pool(ctx)
	if err != nil {
		d.add("database", levelFail, explain(err), "%v", err)
	} else {
		defer pool.Close()
		d.db = pool
		d.server(ctx)
		if d.schema(ctx) {
			d.privileges(ctx)
			d.upkeep(ctx)
		}
		if d.config.Replication.Enabled {
			d.stream(ctx)
		} else {
			d.add("replication", levelNote, "", "is off: the relay sweeps the table every %v", d.config.Relay.PollInterval)
		}
	}
	if !offline {
		d.stripe(ctx)
	}
}

func (d *doctor) report() error {
	failed := 0
	for _, f := range d.findings {
		if f.Level == levelFail {
			failed++
		}
	}
	err := d.app.emit(d.findings, func(w io.Writer) {
		for _, f := range d.findings {
			fmt.Fprintf(w, "%-4s  %s: %s\n", f.Level, f.Check, printable(oneLine(f.What)))
			if f.Fix != "" {
				fmt.Fprintf(w, "      → %s\n", printable(f.Fix))
			}
		}
	})
	if err != nil {
		return err
	}
	return findings(failed)
}
