package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
)

// sandboxOptions are what the flags of sandbox say.
type sandboxOptions struct {
	listen      string
	keys        []string
	meters      []string
	faults      []string
	faultFile   string
	limits      bool
	concurrency string
	uniqueness  time.Duration
	seed        uint64
}

func (a *app) sandboxCommand() *cobra.Command {
	var o sandboxOptions
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "Run a stand-in for Stripe, with faults on demand",
		Long: `Run a stand-in for Stripe's meters on this machine. It recognises resends, keeps a ledger
of what was billed, and breaks on demand. Point a lane at it with WEIR_STRIPE_URL.

Under /_sandbox/ it tells what it has seen (summary, ledger) and takes faults, a moved clock
and an outage (faults, clock, down). At the end it prints its totals.`,
		Example: `  weir sandbox --meter api_calls --meter tokens:last
  weir sandbox --fault '{"match":{"every":10},"action":{"kind":"reset","when":"after"}}'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.sandbox(c.Context(), o) },
	}
	flags := c.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:12111", "`address` to answer at")
	flags.StringArrayVar(&o.keys, "key", nil, "an API `key` that may call; repeatable (default: sk_test_weir and sk_live_weir)")
	flags.StringArrayVar(&o.meters, "meter", nil, "a meter, as `event_name` or event_name:formula; repeatable")
	flags.StringArrayVar(&o.faults, "fault", nil, "a fault as `JSON`; repeatable")
	flags.StringVar(&o.faultFile, "faults", "", "a `file` with faults, a JSON list")
	flags.BoolVar(&o.limits, "limits", false, "limit calls a second as Stripe does")
	flags.StringVar(&o.concurrency, "concurrency", "", "what a second call for one customer and meter meets: 429, 409 or lock_timeout (default: nothing)")
	flags.DurationVar(&o.uniqueness, "uniqueness", 24*time.Hour, "how long an identifier is known")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the faults' chances")
	return c
}

// config is what the flags say as package sandbox takes it.
func (o *sandboxOptions) config() (sandbox.Config, error) {
	cfg := sandbox.Config{
		Seed:             o.seed,
		UniquenessWindow: o.uniqueness,
		Concurrency:      sandbox.Concurrency(o.concurrency),
	}
	for _, k := range o.keys {
		cfg.Keys = append(cfg.Keys, sandbox.Key{Secret: k})
	}
	for _, m := range o.meters {
		name, formula, _ := strings.Cut(m, ":")
		cfg.Meters = append(cfg.Meters, sandbox.Meter{EventName: name, Formula: formula})
	}
	if o.limits {
		cfg.Limits = sandbox.StripeLimits()
	}
	for _, text := range o.faults {
		var rule sandbox.Rule
		if err := strict(text, &rule); err != nil {
			return cfg, usagef("--fault %s: %v", text, err)
		}
		cfg.Faults = append(cfg.Faults, rule)
	}
	if o.faultFile != "" {
		text, err := os.ReadFile(o.faultFile)
		if err != nil {
			return cfg, usagef("--faults: %v", err)
		}
		var rules []sandbox.Rule
		if err := strict(string(text), &rules); err != nil {
			return cfg, usagef("--faults %s: %v", o.faultFile, err)
		}
		cfg.Faults = append(cfg.Faults, rules...)
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}

// strict reads JSON without unknown keys.
func strict(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func (a *app) sandbox(ctx context.Context, o sandboxOptions) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	settings, err := a.config()
	if err != nil {
		return err
	}
	cfg.Logger = a.logger(settings)
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("sandbox: %w: name another address with --listen", err)
	}
	key := "sk_test_weir"
	if len(o.keys) > 0 {
		key = o.keys[0]
	}
	fmt.Fprintf(a.stderr, `A stand-in for Stripe answers at http://%s. Point weir at it:

  export WEIR_STRIPE_URL=http://%[1]s WEIR_STRIPE_KEY=%s
  weir run

  curl http://%[1]s/_sandbox/summary   what it has seen

`, listener.Addr(), key)
	if len(o.meters) == 0 {
		fmt.Fprintln(a.stderr, "It has no meters and refuses every event: add some with --meter event_name.")
	}
	s := sandbox.New(cfg)
	if err := s.Serve(ctx, listener); err != nil {
		return err
	}
	totals := s.Totals()
	return a.emit(totals, func(w io.Writer) {
		fmt.Fprintf(w, "billed %d, of them %d twice; refused later %d; %d identifiers in %d requests\n",
			totals.Billed, totals.BilledAgain, totals.Rejected, totals.Identifiers, totals.Received)
	})
}
