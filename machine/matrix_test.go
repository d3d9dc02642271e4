package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// stand brings a new item into a state, through the store's own methods, and answers its last claim.
func (f *fixture) stand(state State) Ref {
	f.Helper()
	ref := fmt.Sprintf("stands-%s", state)
	if state == Quarantined {
		return Ref{ID: f.stage(f.pool, intent{ref: ref, quarantine: "no_customer"})}
	}
	id := f.enqueue(ref)
	if state == Pending {
		return Ref{ID: id}
	}
	claim := f.claimed(id).Ref()
	f.settle(state, claim)
	if got := f.row(id).State; got != state {
		f.Fatalf("stand: want %s, got %s", state, got)
	}
	return claim
}

// settle takes a leased item on to state.
func (f *fixture) settle(state State, claim Ref) {
	f.Helper()
	ctx := f.Context()
	var err error
	switch state {
	case Leased:
	case Accepted:
		_, err = f.Accept(ctx, []Acceptance{{Ref: claim}})
	case Confirmed:
		if _, err = f.Accept(ctx, []Acceptance{{Ref: claim}}); err == nil {
			_, err = f.Confirm(ctx, []int64{claim.ID})
		}
	case Uncertain:
		_, err = f.Doubt(ctx, []Failure{{Ref: claim, Cause: Cause{Code: "timeout"}}})
	case Rejected:
		_, err = f.Reject(ctx, []Failure{{Ref: claim, Cause: Cause{Code: "no_such_customer"}}})
	default:
		f.Fatalf("settle: no way to %s", state)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// deed is one event on one item, as the store offers it: did it change the item, and what did it say?
type deed struct {
	event Event
	do    func(ctx context.Context, f *fixture, item Ref) (changed bool, err error)
}

// claimedOne, one and person reduce the methods' answers to what a deed tells.
func claimedOne(items []Item, err error) (bool, error) { return len(items) == 1, err }
func one(ids []int64, err error) (bool, error)         { return len(ids) == 1, err }
func person(err error) (bool, error)                   { return err == nil, err }

func failure(item Ref) []Failure { return []Failure{{Ref: item, Cause: Cause{Code: "c"}}} }

// deeds are all the store's transitions. Those with an expected state are told the one in which they work.
func deeds() []deed {
	stripe := Claimer{Exporter: "stripe", Owner: "w2"}
	recovery := func(event Event) deed {
		return deed{event, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return person(f.Recover(ctx, item, event, operator))
		}}
	}
	abandon := func(expected State) deed {
		return deed{Abandon, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return person(f.Abandon(ctx, item.ID, expected, operator))
		}}
	}
	return []deed{
		{Claim, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return claimedOne(f.Claim(ctx, stripe, []int64{item.ID}))
		}},
		{Claim, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return claimedOne(f.Sweep(ctx, stripe, 0, 10))
		}},
		{Accept, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return one(f.Accept(ctx, []Acceptance{{Ref: item}}))
		}},
		{Retry, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			left, err := f.Retry(ctx, []Postponement{{Ref: item, Cause: Cause{Code: "c"}}})
			return len(left) == 1, err
		}},
		{Doubt, func(ctx context.Context, f *fixture, item Ref) (bool, error) { return one(f.Doubt(ctx, failure(item))) }},
		{Reject, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return one(f.Reject(ctx, failure(item)))
		}},
		{Quarantine, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return one(f.Quarantine(ctx, []Hold{{Ref: item, Cause: Cause{Code: "c"}}}))
		}},
		{Confirm, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return one(f.Confirm(ctx, []int64{item.ID}))
		}},
		{Report, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return one(f.Report(ctx, []Refusal{{Identity: f.identity(item.ID), Cause: Cause{Code: "c"}}}))
		}},
		recovery(RecoverAccept),
		recovery(RecoverRetry),
		recovery(RecoverReject),
		{Requeue, func(ctx context.Context, f *fixture, item Ref) (bool, error) {
			return person(f.Requeue(ctx, item.ID, "1", operator))
		}},
		abandon(Rejected),
		abandon(Quarantined),
	}
}

func (f *fixture) identity(id int64) (identity [32]byte) {
	f.Helper()
	var b []byte
	if err := f.pool.QueryRow(f.Context(), `SELECT identity FROM weir.outbox WHERE id = $1`, id).Scan(&b); err != nil {
		f.Fatal(err)
	}
	copy(identity[:], b)
	return identity
}

// Every starting state, every event: the item moves along the table's edge, or nothing is written.
func TestEveryEventFromEveryState(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	for _, from := range States {
		t.Run(string(from), func(t *testing.T) {
			for i, d := range deeds() {
				t.Run(fmt.Sprintf("%02d-%s", i, d.event), func(t *testing.T) {
					f.clear()
					testDeed(t, f.with(t), from, d)
				})
			}
		})
	}
}

func testDeed(t *testing.T, f *fixture, from State, d deed) {
	item := f.stand(from)
	if from == Leased && d.event == Claim {
		f.pass(item.ID, 2*DefaultPolicy().Lease)
	}
	before := f.row(item.ID)
	changed, err := d.do(t.Context(), f, item)
	after := f.row(item.ID)
	to, impossible := Next(from, d.event)
	// Abandon stands for two rows of the table, told apart by the state that is expected.
	var mismatch *StateMismatchError
	if errors.As(err, &mismatch) && d.event == Abandon && mismatch.Expected != from {
		impossible = err
	}
	if impossible == nil {
		if !changed || err != nil || after.State != to || after.From != from {
			t.Fatalf("want %s from %s, got %s from %s, changed %v, %v", to, from, after.State, after.From, changed, err)
		}
		return
	}
	if changed || after.whole != before.whole {
		t.Errorf("impossible, and yet it changed %v:\n%s\n%s", changed, before.whole, after.whole)
	}
	switch {
	case !slices.Contains(people(), d.event):
		if err != nil {
			t.Errorf("too late is no error: %v", err)
		}
	case mismatch == nil || mismatch.Current != from || mismatch.Token != item.Token || mismatch.ID != item.ID:
		t.Errorf("want a *StateMismatchError that says where the item stands, got %v", err)
	}
	if ops := f.operations(); len(ops) != 0 {
		t.Errorf("an operation that did nothing was written down: %q", ops)
	}
}

// From leased, a claim is possible only once the lease has expired; from pending, once it is due.
func TestClaimWaits(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	stripe := Claimer{Exporter: "stripe", Owner: "w2"}
	leased := f.stand(Leased)
	later := f.claimed(f.enqueue("later"))
	if _, err := f.Retry(t.Context(), []Postponement{{Ref: later.Ref(), Cause: Cause{Code: "c"}, Delay: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	ids := []int64{leased.ID, later.ID}
	for _, step := range []struct {
		passed time.Duration
		want   int
	}{{0, 0}, {59 * time.Second, 0}, {2 * time.Second, 1}, {58 * time.Second, 0}, {2 * time.Second, 1}} {
		for _, id := range ids {
			f.pass(id, step.passed)
		}
		items, err := f.Claim(t.Context(), stripe, ids)
		if err != nil || len(items) != step.want {
			t.Fatalf("after %v more: want %d items, got %v, %v", step.passed, step.want, items, err)
		}
	}
	if items, err := f.Claim(t.Context(), Claimer{Exporter: "webhook", Owner: "w2"}, []int64{f.enqueue("other lane")}); err != nil || len(items) != 0 {
		t.Errorf("a lane claimed another's item: %v, %v", items, err)
	}
}

func TestPeoplesErrors(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	ctx := t.Context()
	item := f.stand(Uncertain)
	held := f.stand(Quarantined)
	var refused *TransitionError
	for name, err := range map[string]error{
		"recover by another event":     f.Recover(ctx, item, Accept, operator),
		"abandon what can't be":        f.Abandon(ctx, item.ID, Uncertain, operator),
		"abandon what isn't there yet": f.Abandon(ctx, item.ID, None, operator),
	} {
		if !errors.As(err, &refused) {
			t.Errorf("%s: want a *TransitionError, got %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"recover": f.Recover(ctx, Ref{ID: 999}, RecoverRetry, operator),
		"requeue": f.Requeue(ctx, 999, "1", operator),
		"abandon": f.Abandon(ctx, 999, Rejected, operator),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: want ErrNotFound, got %v", name, err)
		}
	}
	if err := f.Requeue(ctx, held.ID, "2", operator); !errors.Is(err, ErrMappingChanged) {
		t.Errorf("want ErrMappingChanged, got %v", err)
	}
	for _, by := range []Operator{{}, {Actor: "ada"}, {Reason: "why not"}} {
		for name, err := range map[string]error{
			"recover": f.Recover(ctx, item, RecoverRetry, by),
			"requeue": f.Requeue(ctx, held.ID, "1", by),
			"abandon": f.Abandon(ctx, held.ID, Quarantined, by),
		} {
			if err == nil {
				t.Errorf("%s by %+v: want an error", name, by)
			}
		}
	}
	if ops := f.operations(); len(ops) != 0 {
		t.Errorf("written down: %q", ops)
	}
}
