package torture

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
)

// taken is how many items the provider takes without an answer: too few for the lane to notice an outage.
const taken = 4

// forgetful is a scene in which the provider takes items without an answer, is gone for longer than it remembers
// identifiers, and comes back: whoever sends again then bills twice.
func forgetful(ctx context.Context, w *world) error {
	lost := sandbox.Rule{Name: "answers are lost", Action: sandbox.Action{Kind: sandbox.FaultReset, When: sandbox.After}}
	if _, err := w.provider.AddFault(lost); err != nil {
		return err
	}
	for range taken {
		if _, err := w.enqueueOne(ctx, w.aim()); err != nil {
			return err
		}
	}
	if err := w.provider.Await(ctx, func(t sandbox.Totals) bool { return t.Billed == taken }); err != nil {
		return err
	}
	w.provider.Down(true)
	defer w.provider.Down(false)
	return sleep(ctx, w.plan.Horizon+3*lease)
}

func shortHorizon() *Plan {
	p := plain(0, 1)
	p.Horizon = 4 * time.Second
	return p
}

// Past the horizon an item isn't sent again, and says why. lesson 25.
func TestScenarioHorizon(t *testing.T) {
	slow(t)
	a := open(t, Options{Program: build(t), Dir: t.TempDir()})
	enact(t, a, shortHorizon(), func(ctx context.Context, w *world) error {
		if err := forgetful(ctx, w); err != nil {
			return err
		}
		w.provider.Down(false)
		if err := poll(ctx, func() bool { return w.openItems(ctx) == 0 }); err != nil {
			return err
		}
		counts, err := w.count(ctx)
		if err != nil {
			return err
		}
		if n := counts.Get("stripe", machine.Uncertain); n != taken {
			return fmt.Errorf("%d items are uncertain, need %d", n, taken)
		}
		return nil
	})
}

// TestMutantHorizon shows that a weir without a horizon is caught.
func TestMutantHorizon(t *testing.T) {
	slow(t)
	m := mutant{name: "no horizon", edits: []edit{
		{"machine/settle.go", "NOT s.undo AND clock_timestamp() + s.delay * interval '1 second' > d.first_attempt_at + $8 * interval '1 second'",
			"$8 * interval '1 second' < interval '0'"},
		{"machine/claim.go", "coalesce(due.first_attempt_at + $4 * interval '1 second' <= clock_timestamp(), false)",
			"$4 * interval '1 second' < interval '0'"},
	}}
	a := open(t, Options{Program: m.build(t), Dir: t.TempDir()})
	faults, _ := perform(t, a, shortHorizon(), forgetful)
	for _, fault := range faults {
		t.Logf("caught: %v", fault)
	}
	if len(faults) == 0 {
		t.Error("nothing was noticed")
	}
}
