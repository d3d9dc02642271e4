package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
)

// proof is what is known of an uncertain item, and what follows.
type proof struct {
	ID      int64             `json:"id"`
	Lane    string            `json:"lane"`
	Verdict reconcile.Verdict `json:"verdict"`
	Why     string            `json:"why"`
	// As is the state that the evidence supports, "" where it supports none.
	As      machine.State `json:"as,omitempty"`
	Done    bool          `json:"done"`
	Problem string        `json:"problem,omitempty"`

	ref machine.Ref
}

// supports says what state a verdict supports. Only a person sends an item again: also with this evidence it is asked for.
func supports(v reconcile.Verdict) machine.State {
	switch v {
	case reconcile.Counted:
		return machine.Accepted
	case reconcile.NotCounted:
		return machine.Pending
	case reconcile.Reported:
		return machine.Rejected
	}
	return machine.None
}

// evidence is weir recover without --as: it asks Stripe what became of uncertain items.
type evidence struct {
	names []string
	what  selection
	apply bool
	by    machine.Operator
}

func (e *evidence) run(ctx context.Context, a *app) error {
	if e.apply {
		if err := actor(&e.by); err != nil {
			return err
		}
	}
	pool, store, err := a.store(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	act := action{verb: "recover", from: []machine.State{machine.Uncertain}, what: e.what}
	found, missing, err := act.find(ctx, pool, e.names)
	if err != nil {
		return err
	}
	proofs, err := e.ask(ctx, a, pool, found)
	if err != nil {
		return err
	}
	for _, id := range missing {
		proofs = append(proofs, proof{ID: id, Verdict: reconcile.CannotTell, Problem: "there is no such item"})
	}
	open := 0
	for i := range proofs {
		e.settle(ctx, store, &proofs[i])
		// Looking finds fault only with what isn't there, or isn't uncertain; applying with what stays as it was.
		if proofs[i].Problem != "" || e.apply && !proofs[i].Done {
			open++
		}
	}
	if err := a.emit(map[string]any{"applied": e.apply, "items": proofs}, func(w io.Writer) { e.print(w, proofs) }); err != nil {
		return err
	}
	return findings(open)
}

// ask finds what Stripe's sums prove of the items.
func (e *evidence) ask(ctx context.Context, a *app, pool *pgxpool.Pool, found []*item) ([]proof, error) {
	var proofs []proof
	lanes := map[string]bool{}
	for _, it := range found {
		p := proof{ID: it.ID, Lane: it.Exporter, Verdict: reconcile.CannotTell, ref: machine.Ref{ID: it.ID, Token: it.LeaseToken},
			Why: "its hour isn't over, its meter can't be compared, or its payload can't be read"}
		if it.State != machine.Uncertain {
			p.Problem = fmt.Sprintf("it is %s: recover takes items that are uncertain", it.State)
		} else {
			lanes[it.Exporter] = true
		}
		proofs = append(proofs, p)
	}
	for lane := range lanes {
		if l := a.loaded.Lanes[lane]; l == nil || l.Type != "stripe" {
			continue
		}
		reconcilers, err := a.reconcilersOf(pool, lane)
		if err != nil {
			return nil, err
		}
		const reads = 1000
		report, err := reconcilers[lane].Examine(ctx, reconcile.Query{Uncertain: true, Reads: reads})
		if err != nil {
			return nil, fmt.Errorf("lane %s: %w", lane, err)
		}
		for _, f := range report.Findings {
			for _, d := range f.Doubts {
				i := slices.IndexFunc(proofs, func(p proof) bool { return p.ID == d.ID && p.Problem == "" })
				if i < 0 || proofs[i].ref.Token != d.Token {
					continue
				}
				proofs[i].Verdict, proofs[i].As = d.Verdict, supports(d.Verdict)
				proofs[i].Why = fmt.Sprintf("%s on %s, %s: %s", f.Customer, f.Meter, f.Hour.Format(time.RFC3339), d.Why)
			}
		}
	}
	return proofs, nil
}

// settle moves the item as the evidence says, if asked to. What was found is the reason that is kept.
func (e *evidence) settle(ctx context.Context, store *machine.Store, p *proof) {
	if !e.apply || p.As == machine.None || p.Problem != "" {
		return
	}
	by := e.by
	by.Reason = "evidence: " + p.Why
	if e.by.Reason != "" {
		by.Reason = e.by.Reason + "; " + by.Reason
	}
	if err := store.Recover(ctx, p.ref, verdicts[string(p.As)], by); err != nil {
		p.Problem = err.Error()
		var moved *machine.StateMismatchError
		if errors.As(err, &moved) {
			p.Problem = moved.Error()
		}
		return
	}
	p.Done = true
}

func (e *evidence) print(w io.Writer, proofs []proof) {
	if len(proofs) == 0 {
		fmt.Fprintln(w, "Nothing to do: no item is uncertain.")
		return
	}
	say := map[reconcile.Verdict]string{
		reconcile.Counted: "was counted", reconcile.NotCounted: "was not counted", reconcile.CannotTell: "can't tell", reconcile.Reported: "was refused",
	}
	var rows [][]string
	decided, done := 0, 0
	for _, p := range proofs {
		as, why := string(p.As), p.Why
		if p.As != machine.None && p.Problem == "" {
			decided++
		}
		if p.Done {
			done++
		}
		if p.Problem != "" {
			why = p.Problem
		}
		rows = append(rows, []string{fmt.Sprint(p.ID), p.Lane, say[p.Verdict], as, why})
	}
	table(w, []string{"ID", "LANE", "STRIPE'S SUM SAYS", "RECOVER AS", "WHY"}, rows)
	if e.apply {
		fmt.Fprintf(w, "\nrecover: %s moved, by %s.\n", plural(done, "item"), e.by.Actor)
		return
	}
	if decided > 0 {
		fmt.Fprintf(w, "\nWould recover %s. Nothing was changed. Add --apply to do it; those as pending are sent again.\n", plural(decided, "item"))
	}
	if left := len(proofs) - decided; left > 0 {
		fmt.Fprintf(w, "%s can't be decided by Stripe's sums: look at them yourself, then use --as.\n", plural(left, "item"))
	}
}
