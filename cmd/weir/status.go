package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/checkpoint"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
	"github.com/weir-relay/weir/replication"
)

// status is how everything stands.
type status struct {
	// Counted says when the states were counted: at the time of the checkpoint, or now.
	Counted   string                             `json:"counted"` // checkpoint or now
	CountedAt time.Time                          `json:"counted_at"`
	States    map[string]map[machine.State]int64 `json:"states"`      // by exporter
	Oldest    map[string]float64                 `json:"oldest_open"` // seconds, by exporter; those without open items are missing
	Attention int64                              `json:"attention"`   // items that wait for a person
	Reconcile map[string]reconcile.Open          `json:"reconcile"`   // by exporter; those without anything unresolved are missing
	Slot      slotReport                         `json:"slot"`
	Relay     *relayReport                       `json:"relay"` // nil where no relay answers on http.listen
	now       time.Time
}

func (a *app) statusCommand() *cobra.Command {
	var exact bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how many items stand where, and how far the relay is",
		Long: `Show how many items stand where, how long the oldest waits, and how far behind the slot is.

The counts are those of the relay's last checkpoint, and as old as it; --exact counts the
table instead, which takes long where it is big. The lanes are those of the relay that
answers on http.listen, if one does.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			pool, err := a.pool(c.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			s, err := a.look(c.Context(), pool, exact)
			if err != nil {
				return err
			}
			return a.emit(s, func(w io.Writer) { s.print(w) })
		},
	}
	c.Flags().BoolVar(&exact, "exact", false, "count the table")
	return c
}

func (a *app) look(ctx context.Context, db *pgxpool.Pool, exact bool) (*status, error) {
	slot := a.loaded.Replication.Slot
	s := &status{Counted: "checkpoint", Oldest: map[string]float64{}}
	err := db.QueryRow(ctx, `
SELECT clock_timestamp(), (SELECT count(*) FROM weir.deliveries WHERE attention)`).Scan(&s.now, &s.Attention)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	view, found, err := checkpoint.Load(ctx, db, slot)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	s.CountedAt = view.Written
	if exact || !found {
		s.Counted, s.CountedAt = "now", s.now
		if view.Counts, err = count(ctx, db); err != nil {
			return nil, err
		}
	}
	s.States = view.Counts.Nested()
	waits, err := machine.NewStore(db, machine.DefaultPolicy()).Oldest(ctx, slices.Collect(maps.Keys(view.Counts)))
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	for exporter, age := range waits {
		s.Oldest[exporter] = age.Seconds()
	}
	if s.Reconcile, err = a.unreconciled(ctx, db); err != nil {
		return nil, err
	}
	info, err := replication.Inspect(ctx, db, slot)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	s.Slot = reportSlot(slot, info)
	s.Relay = askRelay(ctx, a.loaded.HTTP.Listen)
	return s, nil
}

// unreconciled counts what is unresolved of each lane; nothing, where the schema is older or the role may not look.
func (a *app) unreconciled(ctx context.Context, db *pgxpool.Pool) (map[string]reconcile.Open, error) {
	out := map[string]reconcile.Open{}
	var there bool
	err := db.QueryRow(ctx, `
SELECT CASE WHEN to_regclass('weir.drifts') IS NULL THEN false
            ELSE has_table_privilege('weir.drifts', 'SELECT') AND has_table_privilege('weir.suspects', 'SELECT') END`).Scan(&there)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	for name := range a.loaded.Lanes {
		if !there {
			break
		}
		open, err := reconcile.CountOpen(ctx, db, name)
		if err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
		if open != (reconcile.Open{}) {
			out[name] = open
		}
	}
	return out, nil
}

// count counts the table.
func count(ctx context.Context, db *pgxpool.Pool) (machine.Counts, error) {
	counts := machine.Counts{}
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return checkpoint.Count(ctx, tx, counts)
	})
	return counts, err
}

func (s *status) print(w io.Writer) {
	header := []string{"EXPORTER"}
	for _, state := range machine.States {
		header = append(header, string(state))
	}
	header = append(header, "OLDEST OPEN")
	var rows [][]string
	for _, exporter := range slices.Sorted(maps.Keys(s.States)) {
		row := []string{exporter}
		for _, state := range machine.States {
			row = append(row, fmt.Sprint(s.States[exporter][state]))
		}
		waits := "–"
		if seconds, ok := s.Oldest[exporter]; ok {
			waits = age(time.Duration(seconds * float64(time.Second)))
		}
		rows = append(rows, append(row, waits))
	}
	if len(rows) > 0 {
		table(w, header, rows)
	} else {
		fmt.Fprintln(w, "No items yet.")
	}
	if s.Counted == "checkpoint" {
		fmt.Fprintf(w, "\nCounted by the relay, %s ago.\n", age(s.now.Sub(s.CountedAt)))
	}
	if s.Attention > 0 {
		fmt.Fprintf(w, "\n%s for a person: weir list --attention\n", waiting(s.Attention))
	}
	for _, exporter := range slices.Sorted(maps.Keys(s.Reconcile)) {
		open := s.Reconcile[exporter]
		fmt.Fprintf(w, "\n%s: Stripe's sums differ from weir's in %s (Stripe has more in %d, weir in %d, %d can't be told); %s unsettled: weir reconcile\n",
			printable(exporter), plural(int(open.ProviderHasMore+open.WeirHasMore+open.Unclear), "hour"), open.ProviderHasMore, open.WeirHasMore, open.Unclear,
			plural(int(open.Suspects), "reported failure"))
	}
	fmt.Fprintln(w)
	s.Slot.print(w)
	s.Relay.print(w)
}

func waiting(n int64) string {
	if n == 1 {
		return "1 item waits"
	}
	return fmt.Sprintf("%d items wait", n)
}
