package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/machine"
)

// action is what a person does to items: requeue, recover, abandon.
type action struct {
	verb string
	from []machine.State // the states that it takes items out of
	what selection
	yes  bool
	by   machine.Operator
	// to is the state that it moves it to.
	to func(it *item) machine.State
	// perform moves one item, as the preview showed it.
	perform func(ctx context.Context, s *machine.Store, it *item) error
	// caution is what a person should know about the item before they do it, "" where there is nothing.
	caution func(it *item) string
}

// deed is what became of one item.
type deed struct {
	ID      int64         `json:"id"`
	From    machine.State `json:"from"`
	To      machine.State `json:"to"`
	Caution string        `json:"caution,omitempty"`
	Done    bool          `json:"done"`
	Problem string        `json:"problem,omitempty"`
}

// flags adds those that all actions have.
func (act *action) flags(c *cobra.Command) {
	flags := c.Flags()
	act.what.filterFlags(flags)
	flags.IntVar(&act.what.limit, "limit", 0, "how many at most, the oldest first; 0: all")
	flags.BoolVar(&act.yes, "yes", false, "do it; without, it is only shown")
	flags.StringVar(&act.by.Actor, "actor", "", "who does it (default: the user of the operating system)")
	flags.StringVar(&act.by.Reason, "reason", "", "why, for those who look later; required with --yes")
}

// pageSize is how many items are read at a time.
const pageSize = 1000

// run selects the items, shows them, and with --yes moves them.
func (act *action) run(ctx context.Context, a *app, names []string) error {
	if err := act.check(names); err != nil {
		return err
	}
	pool, store, err := a.store(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	found, missing, err := act.find(ctx, pool, names)
	if err != nil {
		return err
	}
	deeds := make([]deed, len(found))
	bad := len(missing)
	for i, it := range found {
		deeds[i] = act.do(ctx, store, it)
		if deeds[i].Problem != "" {
			bad++
		}
		if err := ctx.Err(); err != nil {
			deeds, found = deeds[:i+1], found[:i+1]
			break
		}
	}
	for _, id := range missing {
		deeds = append(deeds, deed{ID: id, Problem: "there is no such item"})
	}
	err = a.emit(map[string]any{"action": act.verb, "performed": act.yes, "items": deeds}, func(w io.Writer) {
		act.print(w, a.stderr, found, deeds)
	})
	if err != nil {
		return err
	}
	return findings(bad)
}

// check refuses a call that names nothing, or names items twice over.
func (act *action) check(names []string) error {
	switch {
	case len(names) == 0 && !act.what.narrowed():
		return usagef("%s: name items by id or identifier, or filter them, as in --error or --tenant; weir list --attention shows those that wait", act.verb)
	case len(names) > 0 && act.what.narrowed():
		return usagef("%s: name items or filter them, not both", act.verb)
	case act.what.limit < 0:
		return usagef("--limit %d: need 0 or more", act.what.limit)
	case !act.yes:
		return nil
	}
	if err := actor(&act.by); err != nil {
		return err
	}
	if act.by.Reason == "" {
		return usagef("--reason: say why, for those who look later")
	}
	return nil
}

// actor names who acts, if nobody is named yet.
func actor(by *machine.Operator) error {
	if by.Actor != "" {
		return nil
	}
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return usagef("--actor: say who does it: the operating system doesn't tell")
	}
	by.Actor = u.Username
	return nil
}

// find reads the items that are meant, the oldest first. Those that are named are found in any state.
func (act *action) find(ctx context.Context, db *pgxpool.Pool, names []string) (found []*item, missing []int64, err error) {
	s := act.what
	s.oldest = true
	want := s.limit
	if len(names) > 0 {
		if s.ids, err = resolve(ctx, db, names); err != nil {
			return nil, nil, err
		}
	} else {
		for _, state := range act.from {
			s.states = append(s.states, string(state))
		}
	}
	for s.limit = pageSize; ; {
		page, err := items(ctx, db, s)
		if err != nil {
			return nil, nil, err
		}
		found = append(found, page...)
		if want > 0 && len(found) >= want {
			found = found[:want]
			break
		}
		if len(page) < s.limit {
			break
		}
		s.after = page[len(page)-1].ID
	}
	for _, id := range s.ids {
		if !slices.ContainsFunc(found, func(it *item) bool { return it.ID == id }) && want == 0 {
			missing = append(missing, id)
		}
	}
	return found, missing, nil
}

// do moves one item with --yes, and says what would become of it without.
func (act *action) do(ctx context.Context, store *machine.Store, it *item) deed {
	d := deed{ID: it.ID, From: it.State}
	switch {
	case it.AbandonedAt != nil:
		d.Problem = "it is abandoned: enqueue what should be sent under a subject_ref of its own"
		return d
	case !slices.Contains(act.from, it.State):
		d.Problem = fmt.Sprintf("it is %s: %s takes items that are %s", it.State, act.verb, orList(act.from))
		return d
	}
	d.To, d.Caution = act.to(it), act.caution(it)
	if !act.yes {
		return d
	}
	if err := act.perform(ctx, store, it); err != nil {
		d.Problem = err.Error()
		var moved *machine.StateMismatchError
		if errors.As(err, &moved) {
			d.Problem = moved.Error()
		}
		return d
	}
	d.Done = true
	return d
}

func orList(states []machine.State) string {
	text := ""
	for i, s := range states {
		if i > 0 {
			text += " or "
		}
		text += string(s)
	}
	return text
}

// print shows what was done, or what would be.
func (act *action) print(w, warn io.Writer, found []*item, deeds []deed) {
	const shown = 20
	ready, cautious, caution := 0, 0, ""
	for _, d := range deeds {
		if d.Problem != "" {
			fmt.Fprintf(warn, "item %d: %s\n", d.ID, d.Problem)
			continue
		}
		ready++
		if d.Caution != "" {
			cautious++
			caution = d.Caution
		}
	}
	if act.yes {
		fmt.Fprintf(w, "%s: %s moved, by %s.\n", act.verb, plural(ready, "item"), act.by.Actor)
		return
	}
	printItems(w, found[:min(len(found), shown)])
	if len(found) > shown {
		fmt.Fprintf(w, "… and %d more\n", len(found)-shown)
	}
	if cautious > 0 {
		fmt.Fprintf(w, "\n%s (of %s): %s\n", "CAUTION", plural(cautious, "item"), caution)
	}
	if ready == 0 {
		fmt.Fprintln(w, "Nothing to do: no item matches.")
		return
	}
	fmt.Fprintf(w, "\nWould %s %s. Nothing was changed. Add --yes --reason … to do it.\n", act.verb, plural(ready, "item"))
}

// noCaution is for actions that can't do harm.
func noCaution(*item) string { return "" }
