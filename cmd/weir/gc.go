package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/internal/config"
	"github.com/weir-relay/weir/machine"
)

// leastKeep is as long as Stripe takes events, and a day: until then a producer may enqueue an item again, and
// only its row says that it was sent.
const leastKeep = 36 * 24 * time.Hour

// gcOptions are what the flags of gc say.
type gcOptions struct {
	keep   string
	force  bool
	yes    bool
	span   int64
	retain machine.Retention
}

func (a *app) gcCommand() *cobra.Command {
	var o gcOptions
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove items that came to rest long ago",
		Long: `Remove items that were confirmed or abandoned longer ago than --keep; with --accepted also
those that were accepted and that nothing confirms. Items that wait for anything stay.

While an item is there, a producer that enqueues it again is told so. Afterwards it would be
new, and be billed again. Stripe takes events for 35 days, so --keep is 36 days at least.
Without --yes it only counts.`,
		Example: `  weir gc --keep 40d
  weir gc --keep 90d --accepted --yes`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.parse(); err != nil {
				return err
			}
			pool, store, err := a.store(c.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			if o.yes {
				return a.collect(c.Context(), pool, store, o)
			}
			return a.previewGC(c.Context(), store, o)
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.keep, "keep", "40d", "how long an item stays after it came to rest")
	flags.BoolVar(&o.retain.Accepted, "accepted", false, "accepted items too, where nothing confirms them")
	flags.BoolVar(&o.yes, "yes", false, "do it; without, it is only counted")
	flags.BoolVar(&o.force, "force", false, "allow a --keep below 36 days")
	flags.Int64Var(&o.span, "span", 5000, "how many ids one transaction looks at")
	return c
}

func (o *gcOptions) parse() error {
	keep, err := config.ParseDuration(o.keep)
	switch {
	case err != nil:
		return usagef("--keep: %v", err)
	case keep < 0:
		return usagef("--keep %s: need 0 or more", o.keep)
	case keep < leastKeep && !o.force:
		return usagef("--keep %s: Stripe takes events that are up to 35 days old, so a producer that repeats one would bill it again: "+
			"keep 36d or more, or add --force where no producer does", o.keep)
	case o.span < 1:
		return usagef("--span %d: need at least 1", o.span)
	}
	o.retain.Keep = keep
	return nil
}

func (a *app) previewGC(ctx context.Context, store *machine.Store, o gcOptions) error {
	found, err := store.Resting(ctx, o.retain, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	var total int64
	cells := [][]string{}
	for _, r := range found {
		total += r.Items
		cells = append(cells, []string{r.Exporter, r.State, fmt.Sprint(r.Items)})
	}
	return a.emit(map[string]any{"performed": false, "items": total, "detail": append([]machine.Resting{}, found...)}, func(w io.Writer) {
		if total == 0 {
			fmt.Fprintf(w, "No item came to rest longer than %s ago.\n", o.keep)
			return
		}
		table(w, []string{"EXPORTER", "STATE", "ITEMS"}, cells)
		fmt.Fprintf(w, "\nWould remove %s that came to rest longer than %s ago. Nothing was changed. Add --yes to do it.\n", plural(int(total), "item"), o.keep)
	})
}

// collect removes span by span, each in a transaction of its own. It jumps over ids that aren't there.
func (a *app) collect(ctx context.Context, db *pgxpool.Pool, store *machine.Store, o gcOptions) error {
	var removed, last, first int64
	for {
		err := db.QueryRow(ctx, `
SELECT coalesce((SELECT id FROM weir.deliveries WHERE id > $1 ORDER BY id LIMIT 1), 0)`, last).Scan(&first)
		if err == nil && first == 0 {
			break
		}
		var n int64
		if err == nil {
			n, err = store.Remove(ctx, o.retain, first-1, first-1+o.span)
		}
		if err != nil {
			return fmt.Errorf("gc: %s removed so far, those stay removed: %w", plural(int(removed), "item"), err)
		}
		removed += n
		last = first - 1 + o.span
	}
	return a.emit(map[string]any{"performed": true, "items": removed}, func(w io.Writer) {
		fmt.Fprintf(w, "removed %s\n", plural(int(removed), "item"))
	})
}
