package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/machine"
)

// verdicts are what a person may find out about an uncertain item.
var verdicts = map[string]machine.Event{
	"accepted": machine.RecoverAccept,
	"pending":  machine.RecoverRetry,
	"rejected": machine.RecoverReject,
}

func (a *app) recoverCommand() *cobra.Command {
	var as string
	var apply bool
	act := &action{
		verb: "recover",
		from: []machine.State{machine.Uncertain},
		to:   func(*item) machine.State { return machine.State(as) },
	}
	act.caution = func(it *item) string { return cautionOf(it, as) }
	act.perform = func(ctx context.Context, s *machine.Store, it *item) error {
		return s.Recover(ctx, machine.Ref{ID: it.ID, Token: it.LeaseToken}, verdicts[as], act.by)
	}
	c := &cobra.Command{
		Use:   "recover [ID|IDENTIFIER…] [--as accepted|pending|rejected]",
		Short: "Settle uncertain items with what was found out about them",
		Long: `Settle uncertain items: nobody knows whether the provider took them.

Without --as it asks Stripe for its sum of the hour to which each item belongs, and says
what that proves: the item was counted, it was not counted, or it can't be told, and why.
It proves nothing while other items of that hour are on their way, or where the sum can be
made up with the item and without it. --apply settles what is proven: what was counted is
accepted, what was not is sent again, what Stripe has reported as failed is rejected.

With --as you say yourself what you have found out:

  --as accepted   it is there
  --as rejected   it was refused
  --as pending    it isn't there: send it again

Stripe promises to recognise a resend for 24 hours after the first attempt. Later, an item
that did arrive then is billed twice by --as pending. Without --yes it only shows which.`,
		Example: `  weir recover
  weir recover --apply
  weir recover 4711 --as accepted --yes --reason "found in the meter's events"`,
		RunE: func(c *cobra.Command, args []string) error {
			if as == "" {
				if act.yes {
					return usagef("--yes goes with --as; without, --apply does what Stripe's sums prove")
				}
				e := evidence{names: args, what: act.what, apply: apply, by: act.by}
				return e.run(c.Context(), a)
			}
			if apply {
				return usagef("--apply does what Stripe's sums prove: leave --as out, or use --yes with it")
			}
			if _, ok := verdicts[as]; !ok {
				return usagef("--as %q: say what was found out: accepted, pending or rejected", as)
			}
			return act.run(c.Context(), a, args)
		},
	}
	c.Flags().BoolVar(&apply, "apply", false, "settle what Stripe's sums prove; without, and without --as, it is only shown")
	c.Flags().StringVar(&as, "as", "", "what was found out: accepted, pending or rejected")
	act.flags(c)
	return c
}

// cautionOf is what a resend risks.
func cautionOf(it *item, as string) string {
	if as != string(machine.Pending) {
		return ""
	}
	for _, line := range it.resendRisk() {
		return line
	}
	return "a resend is billed twice if the first attempt did arrive and Stripe has forgotten its identifier, which it knows for 24 hours at least."
}
