package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
)

// reconciliation is what weir reconcile does.
type reconciliation struct {
	lane     string
	meter    string
	customer string
	from, to string
	reads    int
	apply    bool
	all      bool
	known    bool    // --acknowledge
	missing  []int64 // --missing
	by       machine.Operator
}

// laneReport is what it finds in one lane.
type laneReport struct {
	Lane string `json:"lane"`
	*reconcile.Report
	Confirmed int `json:"items_confirmed"`
}

func (a *app) reconcileCommand() *cobra.Command {
	var r reconciliation
	c := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare accepted items with Stripe's own sums",
		Long: `Compare what weir has sent with Stripe's own sums, for each customer, meter and hour.

It asks about the hours in which accepted items wait for confirmation. With --customer,
--meter and --from it asks about every hour from there on, also those in which only
somebody else has reported usage. Each question covers 100 hours of a customer on a meter
and counts towards the reads that Stripe allows.

Nothing is changed without --apply, which confirms the items of hours whose sums agree,
and notes those that differ. A relay with reconcile.enabled does the same by itself.

Where you have found out why one hour differs, and the flags name that hour only:
  --acknowledge   what Stripe has more is known, and settled with the customer
  --missing IDS   these accepted items make up what Stripe lacks: they are rejected, and
                  what should be billed can be enqueued anew`,
		Example: `  weir reconcile --customer cus_42 --meter tokens --from 2026-11-01T00:00:00Z
  weir reconcile --apply
  weir reconcile --customer cus_42 --meter tokens --from 2026-11-01T10:00:00Z --to 2026-11-01T11:00:00Z \
      --missing 4711 --reason "Stripe support: the event was dropped"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.reconcile(c.Context(), &r) },
	}
	flags := c.Flags()
	flags.StringVar(&r.lane, "lane", "", "only this `lane` (default: all Stripe lanes)")
	flags.StringVar(&r.customer, "customer", "", "only this `customer`, cus_…")
	flags.StringVar(&r.meter, "meter", "", "only the meter with this `event_name`")
	flags.StringVar(&r.from, "from", "", "only hours from this `time` on, as in 2026-11-01T00:00:00Z")
	flags.StringVar(&r.to, "to", "", "only hours before this `time`")
	flags.IntVar(&r.reads, "reads", 100, "how many questions to Stripe at most, for each lane")
	flags.BoolVar(&r.apply, "apply", false, "confirm what agrees, note what differs; without, it is only shown")
	flags.BoolVar(&r.known, "acknowledge", false, "take what Stripe has more in the one hour that differs for known")
	flags.Int64SliceVar(&r.missing, "missing", nil, "reject these `ids`, which make up what Stripe lacks in the one hour that differs")
	flags.StringVar(&r.by.Actor, "actor", "", "who does it (default: the user of the operating system)")
	flags.StringVar(&r.by.Reason, "reason", "", "why, for those who look later; required with --acknowledge and --missing")
	flags.BoolVar(&r.all, "all", false, "show the hours that agree too")
	return c
}

// query is what is asked about.
func (r *reconciliation) query() (q reconcile.Query, err error) {
	q = reconcile.Query{Meter: r.meter, Customer: r.customer, Reads: r.reads}
	for _, bound := range []struct {
		flag, text string
		into       *time.Time
	}{{"--from", r.from, &q.From}, {"--to", r.to, &q.To}} {
		if bound.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, bound.text)
		if err != nil {
			return q, usagef("%s %q: write a time as in 2026-11-01T00:00:00Z", bound.flag, bound.text)
		}
		*bound.into = at.UTC().Truncate(time.Hour)
	}
	if !q.To.IsZero() && !q.From.Before(q.To) {
		return q, usagef("--from %s is not before --to %s", r.from, r.to)
	}
	if acts := r.known || len(r.missing) > 0; acts {
		switch {
		case r.known && len(r.missing) > 0:
			return q, usagef("--acknowledge is for what Stripe has more, --missing for what it lacks: use one of them")
		case r.apply:
			return q, usagef("--apply: use it afterwards")
		case r.by.Reason == "":
			return q, usagef("--reason: say why, for those who look later")
		}
		if err := actor(&r.by); err != nil {
			return q, err
		}
	}
	if r.reads < 1 {
		return q, usagef("--reads %d: need at least 1", r.reads)
	}
	return q, nil
}

func (a *app) reconcile(ctx context.Context, r *reconciliation) error {
	q, err := r.query()
	if err != nil {
		return err
	}
	pool, err := a.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	lanes, err := a.reconcilersOf(pool, r.lane)
	if err != nil {
		return err
	}
	var found []laneReport
	differ := 0
	for _, name := range slices.Sorted(maps.Keys(lanes)) {
		report, err := lanes[name].Examine(ctx, q)
		if err != nil {
			return fmt.Errorf("lane %s: %w", name, err)
		}
		l := laneReport{Lane: name, Report: report}
		if r.apply {
			if l.Confirmed, err = lanes[name].Apply(ctx, report); err != nil {
				return fmt.Errorf("lane %s: %w", name, err)
			}
		}
		for i := range report.Findings {
			if s := report.Findings[i].Standing; s == reconcile.Differs || s == reconcile.Unclear {
				differ++
			}
		}
		found = append(found, l)
	}
	if r.known || len(r.missing) > 0 {
		return a.decide(ctx, r, lanes, found)
	}
	err = a.emit(map[string]any{"applied": r.apply, "lanes": found}, func(w io.Writer) { r.print(w, found) })
	if err != nil {
		return err
	}
	return findings(differ)
}

// decide does what a person has decided about the one hour that differs.
func (a *app) decide(ctx context.Context, r *reconciliation, lanes map[string]*reconcile.Reconciler, found []laneReport) error {
	var lane string
	var one *reconcile.Finding
	for _, l := range found {
		for i := range l.Findings {
			if l.Findings[i].Standing != reconcile.Differs {
				continue
			}
			if one != nil {
				return usagef("more than one hour differs: narrow it down with --lane, --customer, --meter, --from and --to")
			}
			lane, one = l.Lane, &l.Findings[i]
		}
	}
	if one == nil {
		return errors.New("no hour differs: nothing is to be decided")
	}
	act, err := "acknowledged", error(nil)
	if r.known {
		err = lanes[lane].Acknowledge(ctx, one, r.by)
	} else {
		act, err = "rejected as missing", lanes[lane].Missing(ctx, one, r.missing, r.by)
	}
	if err != nil {
		return err
	}
	return a.emit(map[string]any{"lane": lane, "bucket": one, "act": act}, func(w io.Writer) {
		fmt.Fprintf(w, "%s, by %s: %s on %s at %s. The next comparison tells whether the sums agree now: weir reconcile --apply\n",
			act, r.by.Actor, printable(one.Customer), printable(one.Meter), one.Hour.Format(time.RFC3339))
	})
}

// reconcilersOf makes a reconciler for each Stripe lane, or for the one that is named.
func (a *app) reconcilersOf(pool *pgxpool.Pool, only string) (map[string]*reconcile.Reconciler, error) {
	lanes := map[string]*reconcile.Reconciler{}
	for name, lane := range a.loaded.Lanes {
		if lane.Type != "stripe" || only != "" && name != only {
			continue
		}
		e, err := a.stripeExporter(name, lane)
		if err != nil {
			return nil, err
		}
		made, err := reconcile.New(reconcileConfig(a.loaded, pool, name, e, a.logger(a.loaded)))
		if err != nil {
			return nil, fmt.Errorf("lane %s: %w", name, err)
		}
		lanes[name] = made
	}
	if len(lanes) == 0 {
		return nil, usagef("there is no Stripe lane %s", only)
	}
	return lanes, nil
}

func (r *reconciliation) print(w io.Writer, lanes []laneReport) {
	for _, l := range lanes {
		count := map[reconcile.Standing]int{}
		items := 0
		var rows [][]string
		for i := range l.Findings {
			f := &l.Findings[i]
			count[f.Standing]++
			if f.Standing == reconcile.Agrees {
				items += f.Items
				if !r.all {
					continue
				}
			}
			rows = append(rows, []string{f.Hour.Format("2006-01-02T15:04Z"), f.Customer, f.Meter, string(f.Formula),
				f.Expected.String(), f.Found.String(), standing(f), explanation(f)})
		}
		if len(rows) > 0 {
			table(w, []string{"HOUR", "CUSTOMER", "METER", "FORMULA", "WEIR", "STRIPE", "", "ITEMS THAT WOULD EXPLAIN IT"}, rows)
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "lane %s: %s compared with %s: %d agree, %d differ, %d can't be told, %d have items on their way.\n", printable(l.Lane),
			plural(len(l.Findings), "hour"), plural(l.Reads, "question"), count[reconcile.Agrees], count[reconcile.Differs],
			count[reconcile.Unclear], count[reconcile.Moving])
		if l.Left > 0 {
			fmt.Fprintf(w, "%s left out: raise --reads, or the meter isn't one that can be compared.\n", plural(l.Left, "question"))
		}
		switch {
		case r.apply:
			fmt.Fprintf(w, "Confirmed %s.\n", plural(l.Confirmed, "item"))
		case items > 0:
			fmt.Fprintf(w, "Would confirm %s. Nothing was changed. Add --apply to do it.\n", plural(items, "item"))
		}
	}
}

// standing is how an hour stands, for people.
func standing(f *reconcile.Finding) string {
	switch {
	case f.Standing == reconcile.Differs && f.Side() == "provider":
		return "Stripe has more by " + f.Found.Sub(f.Expected).String()
	case f.Standing == reconcile.Differs:
		return "weir has more by " + f.Expected.Sub(f.Found).String()
	case f.Standing == reconcile.Unclear:
		return "can't be told"
	case f.Standing == reconcile.Moving:
		return "items on their way"
	}
	return string(f.Standing)
}

// explanation names the candidates.
func explanation(f *reconcile.Finding) string {
	if len(f.Candidates) == 0 && f.Why != "" {
		return f.Why
	}
	if len(f.Candidates) == 0 {
		if f.Standing == reconcile.Differs && f.Side() == "provider" {
			return "none: somebody else may report usage here"
		}
		return ""
	}
	text := ""
	for i, c := range f.Candidates {
		if i == 3 {
			return fmt.Sprintf("%s, and %d more", text, len(f.Candidates)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d (%s)", c.ID, c.State)
	}
	return text
}
