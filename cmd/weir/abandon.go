package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/machine"
)

func (a *app) abandonCommand() *cobra.Command {
	act := &action{
		verb:    "abandon",
		from:    []machine.State{machine.Rejected, machine.Quarantined},
		to:      func(it *item) machine.State { return it.State },
		caution: func(*item) string { return "an abandoned item is never billed, and nothing takes that back." },
	}
	act.perform = func(ctx context.Context, s *machine.Store, it *item) error {
		return s.Abandon(ctx, it.ID, it.State, act.by)
	}
	c := &cobra.Command{
		Use:   "abandon [ID|IDENTIFIER…]",
		Short: "Record that rejected or quarantined items will never be sent",
		Long: `Record that rejected or quarantined items will never be sent. They keep their state and
leave the list of those that wait for a person. Without --yes it only shows which.`,
		Example: `  weir abandon 4711 --yes --reason "customer was deleted, written off"`,
		RunE:    func(c *cobra.Command, args []string) error { return act.run(c.Context(), a, args) },
	}
	act.flags(c)
	return c
}
