package machine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// due is a sight without what a test's own duration adds.
func due(s Sight) string {
	return fmt.Sprintf("%d %s %v", s.ID, s.State, s.DueIn.Round(5*time.Minute))
}

// waiting makes items that are due at known times: 1 is due, 2 leased for two hours, 3 to be retried in an hour,
// 4 accepted and 5 quarantined.
func waiting(t *testing.T) *fixture {
	t.Helper()
	p := DefaultPolicy()
	p.Lease = 2 * time.Hour
	f := newFixture(t, p)
	f.enqueue("due")
	f.claimed(f.enqueue("leased"))
	f.postpone(f.claimed(f.enqueue("later")).Ref(), Postponement{Delay: time.Hour})
	f.settle(Accepted, f.claimed(f.enqueue("accepted")).Ref())
	f.stage(f.pool, intent{ref: "held", quarantine: "no_customer"})
	return f
}

func TestLook(t *testing.T) {
	f := waiting(t)
	sights, err := f.Look(t.Context(), []int64{99, 5, 4, 3, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1 pending 0s", "2 leased 2h0m0s", "3 pending 1h0m0s", "4 accepted", "5 quarantined"}
	if len(sights) != len(want) {
		t.Fatalf("want %v, got %v", want, sights)
	}
	for i, s := range sights {
		got := due(s)
		if !s.State.Open() {
			got = fmt.Sprintf("%d %s", s.ID, s.State)
		}
		if got != want[i] {
			t.Errorf("want %s, got %s", want[i], got)
		}
	}
	if sights[0].DueIn > 0 {
		t.Errorf("item 1 can be claimed now, and is said to be due in %v", sights[0].DueIn)
	}
}

func TestUpcoming(t *testing.T) {
	f := waiting(t)
	for limit, want := range [][]string{{}, {"1 pending 0s"}, {"1 pending 0s", "3 pending 1h0m0s"},
		{"1 pending 0s", "3 pending 1h0m0s", "2 leased 2h0m0s"}, {"1 pending 0s", "3 pending 1h0m0s", "2 leased 2h0m0s"}} {
		sights, err := f.Upcoming(t.Context(), "stripe", limit)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, s := range sights {
			got = append(got, due(s))
		}
		if !slices.Equal(got, want) {
			t.Errorf("at most %d: want %q, got %q", limit, want, got)
		}
	}
	if other, err := f.Upcoming(t.Context(), "webhook", 9); err != nil || len(other) != 0 {
		t.Errorf("another lane: want nothing, got %v, %v", other, err)
	}
}

// The oldest is the first that is open, by the time at which it entered the outbox.
func TestOldest(t *testing.T) {
	f := waiting(t)
	f.force(`UPDATE weir.outbox SET inserted_at = inserted_at - id * interval '1 hour'`)
	ages, err := f.Oldest(t.Context(), []string{"stripe", "webhook"})
	if err != nil || len(ages) != 1 || ages["stripe"].Round(5*time.Minute) != time.Hour {
		t.Errorf("want 1h of stripe alone, got %v, %v", ages, err)
	}
	f.settle(Accepted, f.claimed(1).Ref())
	if ages, err = f.Oldest(t.Context(), []string{"stripe"}); err != nil || ages["stripe"].Round(5*time.Minute) != 2*time.Hour {
		t.Errorf("want 2h, got %v, %v", ages, err)
	}
}

// A transaction whose rows can't be seen yet is among the running ones, however quiet the database is else.
// lesson 2
func TestRunningKnowsWhoHidesRows(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	ctx := t.Context()
	xmin, next, err := f.Running(ctx)
	if err != nil || xmin > next {
		t.Fatalf("quiet: xmin %d, next %d, %v", xmin, next, err)
	}
	var writers []pgx.Tx
	var hidden []uint64
	for i := range 2 {
		tx, err := f.pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		f.stage(tx, intent{ref: fmt.Sprint("hidden ", i)})
		var id uint64
		if err := tx.QueryRow(ctx, `SELECT pg_current_xact_id()::text::bigint`).Scan(&id); err != nil {
			t.Fatal(err)
		}
		writers, hidden = append(writers, tx), append(hidden, id)
	}
	xmin, next, err = f.Running(ctx)
	if err != nil || xmin > hidden[0] || next <= hidden[1] {
		t.Errorf("transactions %v hide rows: want them in [xmin, next), got [%d, %d), %v", hidden, xmin, next, err)
	}
	for i := range writers {
		if err := writers[i].Commit(ctx); err != nil {
			t.Fatal(err)
		}
		now, _, err := f.Running(ctx)
		if last := i == len(writers)-1; err != nil || (now >= next) != last {
			t.Errorf("%d of %d have ended: xmin %d, to reach %d, %v", i+1, len(writers), now, next, err)
		}
	}
}

func TestSuccessors(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	names := []string{"s/k/1", "s/k/2", "s/l/3", "r/k/4", "-/k/5", "-/k/6", "s/-/7", "-/-/8"}
	tests := map[Order]map[string][]string{
		BestEffort: {"s/k/1": nil},
		PerKey: {
			"s/k/1": {"s/k/2"}, "s/l/3": nil, "-/k/5": {"-/k/6"}, "s/-/7": nil, "-/-/8": nil,
		},
		PerSource:   {"s/k/1": {"s/k/2"}, "r/k/4": nil, "-/k/5": nil, "-/-/8": nil},
		StopTheLine: {"s/k/1": {"s/k/2"}},
	}
	for order, moves := range tests {
		for done, want := range moves {
			t.Run(string(order)+" after "+done, func(t *testing.T) {
				f := f.with(t)
				f.clear()
				ids := f.keyed(names...)
				lane := Claimer{Exporter: "stripe", Owner: "w1", Order: order}
				items, err := f.Claim(t.Context(), lane, []int64{ids[done]})
				if err != nil || len(items) != 1 {
					t.Fatalf("claim of %s: %v, %v", done, items, err)
				}
				f.settle(Accepted, items[0].Ref())
				next, err := f.Successors(t.Context(), lane, items)
				var wantIDs []int64
				for _, name := range want {
					wantIDs = append(wantIDs, ids[name])
				}
				if err != nil || !sameIDs(next, wantIDs) {
					t.Errorf("want %v, got %v, %v", wantIDs, next, err)
				}
				if got, err := f.Claim(t.Context(), lane, next); err != nil || len(got) != len(next) {
					t.Errorf("claim of the successors %v: %v, %v", next, got, err)
				}
			})
		}
	}
}
