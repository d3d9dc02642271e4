package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func (a *app) listCommand() *cobra.Command {
	var s selection
	c := &cobra.Command{
		Use:   "list",
		Short: "List items, the newest first",
		Long:  "List items, the newest first. With --json, one line of JSON an item.",
		Example: `  weir list --attention
  weir list --state rejected --error customer_not_found
  weir list --tenant t_42 --limit 10`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkStates(s.states); err != nil {
				return err
			}
			if s.limit < 1 {
				return usagef("--limit %d: need at least 1", s.limit)
			}
			pool, err := a.pool(c.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			page := s
			page.limit++ // to know whether there are more
			found, err := items(c.Context(), pool, page)
			if err != nil {
				return err
			}
			more := len(found) > s.limit
			found = found[:min(len(found), s.limit)]
			if a.json {
				for _, it := range found {
					if err := a.line(it); err != nil {
						return err
					}
				}
				return nil
			}
			printItems(a.stdout, found)
			switch {
			case len(found) == 0:
				fmt.Fprintln(a.stderr, "No item matches.")
			case more && s.oldest:
				fmt.Fprintf(a.stderr, "There are more: add --after %d, or raise --limit.\n", found[len(found)-1].ID)
			case more:
				fmt.Fprintf(a.stderr, "There are more: add --before %d, or raise --limit.\n", found[len(found)-1].ID)
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&s.states, "state", nil, "only items in these `states`")
	flags.BoolVar(&s.attention, "attention", false, "only items that wait for a person")
	flags.BoolVar(&s.abandoned, "abandoned", false, "the abandoned ones too")
	s.filterFlags(flags)
	flags.Int64Var(&s.after, "after", 0, "only items with an `id` above this one")
	flags.Int64Var(&s.before, "before", 0, "only items with an `id` below this one")
	flags.BoolVar(&s.oldest, "oldest", false, "the oldest first")
	flags.IntVar(&s.limit, "limit", 50, "how many at most")
	return c
}

// printItems prints a line an item.
func printItems(w io.Writer, found []*item) {
	if len(found) == 0 {
		return
	}
	var rows [][]string
	for _, it := range found {
		rows = append(rows, []string{
			fmt.Sprint(it.ID), string(it.State), it.Exporter, short(it.TenantKey, 24), short(it.SubjectRef, 32), it.Mode,
			fmt.Sprint(it.Attempts), age(it.Now.Sub(it.InsertedAt)), short(it.reason(), 60),
		})
	}
	table(w, []string{"ID", "STATE", "EXPORTER", "TENANT", "SUBJECT", "MODE", "ATTEMPTS", "AGE", "REASON"}, rows)
}
