package machine

import (
	"context"
	"testing"
	"time"
)

// settles are the writes of a claim's owner.
func settles() map[Event]func(ctx context.Context, f *fixture, claim Ref) (int, error) {
	return map[Event]func(ctx context.Context, f *fixture, claim Ref) (int, error){
		Accept: func(ctx context.Context, f *fixture, claim Ref) (int, error) {
			ids, err := f.Accept(ctx, []Acceptance{{Ref: claim, ProviderRef: "stale"}})
			return len(ids), err
		},
		Retry: func(ctx context.Context, f *fixture, claim Ref) (int, error) {
			left, err := f.Retry(ctx, []Postponement{{Ref: claim, Cause: Cause{Code: "stale"}, Cost: Unsent, First: true}})
			return len(left), err
		},
		Doubt: func(ctx context.Context, f *fixture, claim Ref) (int, error) {
			ids, err := f.Doubt(ctx, []Failure{{Ref: claim, Cause: Cause{Code: "stale"}}})
			return len(ids), err
		},
		Reject: func(ctx context.Context, f *fixture, claim Ref) (int, error) {
			ids, err := f.Reject(ctx, []Failure{{Ref: claim, Cause: Cause{Code: "stale"}}})
			return len(ids), err
		},
		Quarantine: func(ctx context.Context, f *fixture, claim Ref) (int, error) {
			ids, err := f.Quarantine(ctx, []Hold{{Ref: claim, Cause: Cause{Code: "stale"}, First: true}})
			return len(ids), err
		},
	}
}

// A settle whose claim is out of date writes nothing, in whatever way it got out of date.
// lesson 23
func TestStaleSettleWritesNothing(t *testing.T) {
	ways := map[string]func(f *fixture) (stale, real Ref){
		"older token": func(f *fixture) (stale, real Ref) {
			real = f.stand(Leased)
			return Ref{real.ID, real.Token - 1}, real
		},
		"newer token": func(f *fixture) (stale, real Ref) {
			real = f.stand(Leased)
			return Ref{real.ID, real.Token + 1}, real
		},
		"other id, its token": func(f *fixture) (stale, real Ref) {
			real = f.stand(Leased)
			return Ref{f.enqueue("never claimed"), real.Token}, real
		},
		"no such id": func(f *fixture) (stale, real Ref) {
			real = f.stand(Leased)
			return Ref{real.ID + 1000, real.Token}, real
		},
		"claimed again": func(f *fixture) (stale, real Ref) {
			stale = f.stand(Leased)
			f.pass(stale.ID, time.Hour)
			return stale, f.claimed(stale.ID).Ref()
		},
		"postponed and claimed again": func(f *fixture) (stale, real Ref) {
			stale = f.stand(Leased)
			f.postpone(stale, Postponement{Cause: Cause{Code: "c"}})
			return stale, f.claimed(stale.ID).Ref()
		},
		"undone and claimed again": func(f *fixture) (stale, real Ref) {
			stale = f.stand(Leased)
			f.postpone(stale, Postponement{Cause: Cause{Code: "c"}, Cost: Unsent, First: true})
			return stale, f.claimed(stale.ID).Ref()
		},
		"postponed": func(f *fixture) (stale, real Ref) {
			stale = f.stand(Leased)
			f.postpone(stale, Postponement{Cause: Cause{Code: "c"}})
			return stale, stale
		},
		"recovered and claimed again": func(f *fixture) (stale, real Ref) {
			stale = f.stand(Uncertain)
			if err := f.Recover(f.Context(), stale, RecoverRetry, operator); err != nil {
				f.Fatal(err)
			}
			return stale, f.claimed(stale.ID).Ref()
		},
		"accepted":  func(f *fixture) (stale, real Ref) { real = f.stand(Accepted); return real, real },
		"confirmed": func(f *fixture) (stale, real Ref) { real = f.stand(Confirmed); return real, real },
		"uncertain": func(f *fixture) (stale, real Ref) { real = f.stand(Uncertain); return real, real },
		"rejected":  func(f *fixture) (stale, real Ref) { real = f.stand(Rejected); return real, real },
	}
	f := newFixture(t, DefaultPolicy())
	for way, prepare := range ways {
		t.Run(way, func(t *testing.T) {
			f := f.with(t)
			f.clear()
			stale, real := prepare(f)
			before := f.row(real.ID)
			for event, settle := range settles() {
				if n, err := settle(t.Context(), f, stale); n != 0 || err != nil {
					t.Errorf("%s: want nothing changed and no error, got %d, %v", event, n, err)
				}
			}
			if after := f.row(real.ID); after.whole != before.whole {
				t.Errorf("a stale settle wrote:\n%s\n%s", before.whole, after.whole)
			}
		})
	}
}

// The owner of an expired lease may still settle as long as nobody has claimed the item since: expiry only
// makes an item free again.
func TestLateSettleOfAnUnclaimedItem(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	for event, settle := range settles() {
		t.Run(string(event), func(t *testing.T) {
			f := f.with(t)
			f.clear()
			claim := f.stand(Leased)
			f.pass(claim.ID, time.Hour)
			if n, err := settle(t.Context(), f, claim); n != 1 || err != nil {
				t.Errorf("want it settled, got %d, %v", n, err)
			}
		})
	}
}

// One settle of many items changes the fresh ones and leaves the stale ones.
func TestMixedSettle(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	var batch []Acceptance
	var want []int64
	for i, ref := range []string{"a", "b", "c", "d", "e"} {
		claim := f.claimed(f.enqueue(ref)).Ref()
		if i%2 == 1 {
			f.pass(claim.ID, time.Hour)
			f.claimed(claim.ID)
		} else {
			want = append(want, claim.ID)
		}
		batch = append(batch, Acceptance{Ref: claim, ProviderRef: "of-" + ref})
	}
	got, err := f.Accept(t.Context(), batch)
	if err != nil || !sameIDs(got, want) {
		t.Fatalf("want %v, got %v, %v", want, got, err)
	}
	for i, a := range batch {
		row, ref := f.row(a.ID), a.ProviderRef
		if fresh := i%2 == 0; fresh != (row.State == Accepted) || fresh != (row.ProviderRef == ref) {
			t.Errorf("item %d: %+v", a.ID, row)
		}
	}
	if again, err := f.Accept(t.Context(), batch); err != nil || len(again) != 0 {
		t.Errorf("a repeated settle: want nothing changed, got %v, %v", again, err)
	}
}

// The order in which a caller lists its settles is theirs, and each keeps its own columns.
func TestSettleLeavesItsArgumentAlone(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	a, b := f.claimed(f.enqueue("a")).Ref(), f.claimed(f.enqueue("b")).Ref()
	batch := []Acceptance{{b, "of-b"}, {a, "of-a"}}
	if _, err := f.Accept(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if batch[0].ID != b.ID || batch[1].ID != a.ID {
		t.Errorf("the caller's slice was reordered: %v", batch)
	}
	if got := f.row(a.ID).ProviderRef + " " + f.row(b.ID).ProviderRef; got != "of-a of-b" {
		t.Errorf("provider refs: got %s", got)
	}
}

func (f *fixture) postpone(claim Ref, p Postponement) Postponed {
	f.Helper()
	p.Ref = claim
	left, err := f.Retry(f.Context(), []Postponement{p})
	if err != nil || len(left) != 1 {
		f.Fatalf("retry of item %d: %v, %v", claim.ID, left, err)
	}
	return left[0]
}
