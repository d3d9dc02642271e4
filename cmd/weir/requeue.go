package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/machine"
)

func (a *app) requeueCommand() *cobra.Command {
	act := &action{
		verb:    "requeue",
		from:    []machine.State{machine.Quarantined},
		to:      func(*item) machine.State { return machine.Pending },
		caution: noCaution,
	}
	act.perform = func(ctx context.Context, s *machine.Store, it *item) error {
		return s.Requeue(ctx, it.ID, it.MappingVersion, act.by)
	}
	c := &cobra.Command{
		Use:   "requeue [ID|IDENTIFIER…]",
		Short: "Send quarantined items, after their cause was fixed",
		Long: `Make quarantined items due, after the cause was fixed: a meter created, an account
configured, a key changed. They are sent as they are. Without --yes it only shows which.`,
		Example: `  weir requeue 4711
  weir requeue --quarantine-reason meter_unknown --yes --reason "meter api_calls created"`,
		RunE: func(c *cobra.Command, args []string) error { return act.run(c.Context(), a, args) },
	}
	act.flags(c)
	return c
}
