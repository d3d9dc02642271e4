package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/machine"
)

// operation is a row of weir.operations: what a person did to an item.
type operation struct {
	At        time.Time `json:"at"`
	Actor     string    `json:"actor"`
	Action    string    `json:"action"`
	FromState string    `json:"from_state"`
	ToState   string    `json:"to_state"`
	Reason    string    `json:"reason"`
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID|IDENTIFIER",
		Short: "Show one item: what it is, where it stands, what can be done",
		Args:  oneItem,
		RunE: func(c *cobra.Command, args []string) error {
			pool, err := a.pool(c.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			it, err := one(c.Context(), pool, args[0])
			if err != nil {
				return err
			}
			done, err := operations(c.Context(), pool, it.ID)
			if err != nil {
				return err
			}
			next := it.next()
			return a.emit(struct {
				*item
				Operations []operation `json:"operations"`
				Next       []string    `json:"next"`
			}{it, done, next}, func(w io.Writer) { printItem(w, it, done, next) })
		},
	}
}

// oneItem refuses a command line that doesn't name just one.
func oneItem(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one item, by its id or its identifier, not %d; weir list shows which there are", len(args))
	}
	return nil
}

// one reads the item that name means.
func one(ctx context.Context, db *pgxpool.Pool, name string) (*item, error) {
	ids, err := resolve(ctx, db, []string{name})
	if err != nil {
		return nil, err
	}
	found, err := items(ctx, db, selection{ids: ids, limit: 1})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no such item: %s; weir list shows which there are", name)
	}
	return found[0], nil
}

func operations(ctx context.Context, db *pgxpool.Pool, id int64) ([]operation, error) {
	rows, err := db.Query(ctx, `
SELECT at, actor, action, from_state, to_state, reason
  FROM weir.operations
 WHERE item_id = $1
 ORDER BY id`, id)
	if err != nil {
		return nil, fmt.Errorf("read operations: %w", err)
	}
	done, err := pgx.CollectRows(rows, pgx.RowToStructByPos[operation])
	if err != nil {
		return nil, fmt.Errorf("read operations: %w", err)
	}
	return done, nil
}

func printItem(w io.Writer, it *item, done []operation, next []string) {
	var rows [][]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	when := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		if left := t.Sub(it.Now); left > 0 {
			return t.UTC().Format(time.RFC3339) + " (in " + age(left) + ")"
		}
		return t.UTC().Format(time.RFC3339) + " (" + age(it.Now.Sub(*t)) + " ago)"
	}
	add("id", fmt.Sprint(it.ID))
	add("state", string(it.State))
	add("identifier", it.Identifier)
	add("exporter", it.Exporter)
	add("tenant", it.TenantKey)
	add("subject", it.SubjectKind+" "+it.SubjectRef)
	add("destination", strings.TrimSpace(it.Mode+" "+it.DestinationAccount))
	add("mapping version", it.MappingVersion)
	add("order key", text(it.OrderKey))
	add("source", text(it.Source))
	add("traceparent", text(it.Traceparent))
	add("inserted", when(&it.InsertedAt))
	if it.State == machine.Pending {
		add("due", when(&it.NextAttemptAt))
	}
	add("attempts", fmt.Sprint(it.Attempts))
	add("first attempt", when(it.FirstAttemptAt))
	add("held by", text(it.LeaseOwner))
	add("held until", when(it.LeaseExpiresAt))
	add("accepted", when(it.AcceptedAt))
	add("confirmed", when(it.ConfirmedAt))
	add("provider's name", text(it.ProviderRef))
	add("quarantined for", text(it.QuarantineReason))
	add("last error", text(it.LastError))
	if it.AbandonedAt != nil {
		add("abandoned", when(it.AbandonedAt)+" by "+text(it.AbandonedBy)+": "+text(it.AbandonReason))
	}
	table(w, nil, rows)

	fmt.Fprintln(w, "\npayload")
	printPayload(w, it.Payload)
	if len(done) > 0 {
		fmt.Fprintln(w, "\noperations")
		rows = nil
		for _, o := range done {
			rows = append(rows, []string{"  " + o.At.UTC().Format(time.RFC3339), o.Actor, o.Action, o.FromState + " → " + o.ToState, o.Reason})
		}
		table(w, nil, rows)
	}
	fmt.Fprintln(w, "\nnext")
	for _, line := range next {
		fmt.Fprintln(w, "  "+line)
	}
}

// printPayload prints a JSON object with one key a line.
func printPayload(w io.Writer, payload json.RawMessage) {
	var indented strings.Builder
	e := json.NewEncoder(&indented)
	e.SetEscapeHTML(false)
	e.SetIndent("  ", "  ")
	if err := e.Encode(payload); err != nil {
		indented.Write(payload)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(indented.String()), "\n") {
		fmt.Fprintln(w, "  "+printable(strings.TrimPrefix(line, "  ")))
	}
}
