package machine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/internal/pgtest"
)

// slowly starts a claim that stops after it has taken item 1, with a snapshot of this moment; runs between; and
// answers what the claim came back with.
func (f *fixture) slowly(claim func(ctx context.Context, c Claimer) ([]Item, error), between func()) []Item {
	f.Helper()
	f.db.Exec(f, `
CREATE OR REPLACE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$`)
	f.db.Exec(f, `
CREATE OR REPLACE TRIGGER wait BEFORE UPDATE ON weir.deliveries FOR EACH ROW
  WHEN (NEW.id = 1 AND NEW.lease_owner = 'slow') EXECUTE FUNCTION wait()`)
	gate, err := f.pool.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	defer gate.Rollback(context.WithoutCancel(f.Context()))
	if _, err := gate.Exec(f.Context(), `SELECT pg_advisory_xact_lock(1)`); err != nil {
		f.Fatal(err)
	}
	type answer struct {
		items []Item
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		items, err := claim(f.Context(), Claimer{Exporter: "stripe", Owner: "slow"})
		answered <- answer{items, err}
	}()
	pgtest.Eventually(f, 20*time.Second, func() error {
		var waits bool
		err := f.db.Pool().QueryRow(f.Context(), `
SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
		if err == nil && !waits {
			err = fmt.Errorf("the claim doesn't wait yet")
		}
		return err
	})
	between()
	if err := gate.Rollback(f.Context()); err != nil {
		f.Fatal(err)
	}
	a := <-answered
	if a.err != nil {
		f.Fatalf("slow claim: %v", a.err)
	}
	return a.items
}

// A claim that began before another worker's commit decides by what that worker left, not by its own snapshot.
func TestClaimWithAnOldSnapshot(t *testing.T) {
	ways := map[string]func(f *fixture) func(ctx context.Context, c Claimer) ([]Item, error){
		"claim": func(f *fixture) func(context.Context, Claimer) ([]Item, error) {
			return func(ctx context.Context, c Claimer) ([]Item, error) { return f.Claim(ctx, c, []int64{1, 2}) }
		},
		"sweep": func(f *fixture) func(context.Context, Claimer) ([]Item, error) {
			return func(ctx context.Context, c Claimer) ([]Item, error) { return f.Sweep(ctx, c, 0, 10) }
		},
	}
	tests := map[string]struct {
		between func(f *fixture)
		want    *Item // item 2, if the slow claim gets it
	}{
		"nothing":  {func(*fixture) {}, &Item{Token: 1, Attempts: 1, FirstAttempt: true}},
		"claimed":  {func(f *fixture) { f.claimed(2) }, nil},
		"accepted": {func(f *fixture) { f.settle(Accepted, f.claimed(2).Ref()) }, nil},
		"postponed": {func(f *fixture) { f.postpone(f.claimed(2).Ref(), Postponement{}) },
			&Item{Token: 2, Attempts: 2}},
		"postponed for long": {func(f *fixture) { f.postpone(f.claimed(2).Ref(), Postponement{Delay: time.Hour}) }, nil},
		"undone": {func(f *fixture) { f.postpone(f.claimed(2).Ref(), Postponement{Cost: Unsent, First: true}) },
			&Item{Token: 2, Attempts: 1, FirstAttempt: true}},
		"tried past the horizon": {func(f *fixture) {
			f.postpone(f.claimed(2).Ref(), Postponement{})
			f.pass(2, 24*time.Hour)
		}, &Item{Token: 2, Attempts: 2, PastHorizon: true}},
	}
	f := newFixture(t, DefaultPolicy())
	for way, claim := range ways {
		for name, tt := range tests {
			t.Run(way+" while "+name, func(t *testing.T) {
				f := f.with(t)
				f.clear()
				f.backlog(2)
				items := f.slowly(claim(f), func() { tt.between(f) })
				var got *Item
				for i := range items {
					if it := &items[i]; it.ID == 2 {
						got = &Item{Token: it.Token, Attempts: it.Attempts, FirstAttempt: it.FirstAttempt, PastHorizon: it.PastHorizon}
					}
				}
				if (got == nil) != (tt.want == nil) || got != nil && got.claims() != tt.want.claims() {
					t.Errorf("want %v, got %v", tt.want.claims(), got.claims())
				}
				if got != nil && f.row(2).Owner != "slow" {
					t.Errorf("the row says %+v", f.row(2))
				}
			})
		}
	}
}

func (it *Item) claims() string {
	if it == nil {
		return "nothing"
	}
	return fmt.Sprintf("token %d attempt %d first %v past horizon %v", it.Token, it.Attempts, it.FirstAttempt, it.PastHorizon)
}

// An ordered claim keeps to its own snapshot about who comes first, which only ever holds more back.
func TestOrderedClaimWithAnOldSnapshot(t *testing.T) {
	for _, order := range []Order{PerKey, PerSource} {
		t.Run(string(order), func(t *testing.T) {
			f := newFixture(t, DefaultPolicy())
			f.keyed("r/k/1", "s/k/2", "s/k/3")
			items := f.slowly(func(ctx context.Context, c Claimer) ([]Item, error) {
				c.Order = order
				return f.Sweep(ctx, c, 0, 10)
			}, func() { f.claimed(2) })
			if len(items) != 1 || items[0].ID != 1 {
				t.Errorf("want item 1 alone, got %v", items)
			}
		})
	}
}

// Whatever a database or a role takes for its default, the store's statements see each other's commits.
func TestStoreReadsCommitted(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	f.db.Exec(t, `ALTER DATABASE `+pgx.Identifier{f.db.Name()}.Sanitize()+` SET default_transaction_isolation = 'serializable'`)
	f.Store = NewStore(newPool(t, f.db.URL()), DefaultPolicy())
	f.backlog(2)
	items := f.slowly(func(ctx context.Context, c Claimer) ([]Item, error) { return f.Claim(ctx, c, []int64{1, 2}) },
		func() { f.postpone(f.claimed(2).Ref(), Postponement{}) })
	if len(items) != 2 {
		t.Errorf("want both items, got %v", items)
	}
}

// No ids and no settles are no error.
func TestNothingToDo(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	ctx := t.Context()
	for name, do := range map[string]func() (int, error){
		"claim":      func() (int, error) { l, err := f.Claim(ctx, stripeOwner(1), nil); return len(l), err },
		"accept":     func() (int, error) { l, err := f.Accept(ctx, nil); return len(l), err },
		"retry":      func() (int, error) { l, err := f.Retry(ctx, nil); return len(l), err },
		"doubt":      func() (int, error) { l, err := f.Doubt(ctx, nil); return len(l), err },
		"reject":     func() (int, error) { l, err := f.Reject(ctx, nil); return len(l), err },
		"quarantine": func() (int, error) { l, err := f.Quarantine(ctx, nil); return len(l), err },
		"confirm":    func() (int, error) { l, err := f.Confirm(ctx, nil); return len(l), err },
		"report":     func() (int, error) { l, err := f.Report(ctx, nil); return len(l), err },
		"look":       func() (int, error) { l, err := f.Look(ctx, nil); return len(l), err },
	} {
		if n, err := do(); n != 0 || err != nil {
			t.Errorf("%s: want nothing, got %d, %v", name, n, err)
		}
	}
}
