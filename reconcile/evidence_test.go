package reconcile_test

import (
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
)

// doubtful is an uncertain item of a test.
type doubtful struct {
	usage
	arrived bool
	want    reconcile.Verdict
}

// Stripe's number proves of an uncertain item that it was counted, or that it wasn't, or nothing.
// lesson 25
func TestEvidence(t *testing.T) {
	const counted, not, unknown = reconcile.Counted, reconcile.NotCounted, reconcile.CannotTell
	tests := []struct {
		name    string
		sent    []usage
		doubts  []doubtful
		foreign *usage
	}{
		{"counted", []usage{{"cus_1", "tokens", "5", minute}}, []doubtful{{usage{"cus_1", "tokens", "3", minute}, true, counted}}, nil},
		{"not counted", []usage{{"cus_1", "tokens", "5", minute}}, []doubtful{{usage{"cus_1", "tokens", "3", minute}, false, not}}, nil},
		{"alone, counted", nil, []doubtful{{usage{"cus_1", "tokens", "3", minute}, true, counted}}, nil},
		{"alone, not counted", nil, []doubtful{{usage{"cus_1", "tokens", "3", minute}, false, not}}, nil},
		{"a correction, counted", []usage{{"cus_1", "tokens", "5", minute}}, []doubtful{{usage{"cus_1", "tokens", "-3", minute}, true, counted}}, nil},
		{"one of two", nil, []doubtful{
			{usage{"cus_1", "tokens", "3", minute}, true, counted},
			{usage{"cus_1", "tokens", "4", minute}, false, not}}, nil},
		{"one of two equal ones", nil, []doubtful{
			{usage{"cus_1", "tokens", "3", minute}, true, unknown},
			{usage{"cus_1", "tokens", "3", minute}, false, unknown}}, nil},
		{"two equal ones, both", nil, []doubtful{
			{usage{"cus_1", "tokens", "3", minute}, true, counted},
			{usage{"cus_1", "tokens", "3", minute}, true, counted}}, nil},
		{"three, whose sums meet", nil, []doubtful{
			{usage{"cus_1", "tokens", "3", minute}, true, unknown},
			{usage{"cus_1", "tokens", "4", minute}, true, unknown},
			{usage{"cus_1", "tokens", "7", minute}, false, unknown}}, nil},
		{"nothing fits", []usage{{"cus_1", "tokens", "5", minute}}, []doubtful{{usage{"cus_1", "tokens", "3", minute}, false, unknown}}, &usage{"cus_1", "tokens", "1", minute}},
		{"a value of nothing", nil, []doubtful{{usage{"cus_1", "tokens", "0", minute}, true, unknown}}, nil},
		{"by count", []usage{{"cus_1", "calls", "5", minute}}, []doubtful{{usage{"cus_1", "calls", "3", minute}, true, counted}}, nil},
		{"by count, one of two", nil, []doubtful{
			{usage{"cus_1", "calls", "3", minute}, true, unknown},
			{usage{"cus_1", "calls", "4", minute}, false, unknown}}, nil},
		{"by last, counted", []usage{{"cus_1", "seats", "5", minute}}, []doubtful{{usage{"cus_1", "seats", "3", 2 * minute}, true, counted}}, nil},
		{"by last, not counted", []usage{{"cus_1", "seats", "5", minute}}, []doubtful{{usage{"cus_1", "seats", "3", 2 * minute}, false, not}}, nil},
		{"by last, superseded", []usage{{"cus_1", "seats", "5", 3 * minute}}, []doubtful{{usage{"cus_1", "seats", "3", 2 * minute}, true, unknown}}, nil},
		{"by last, the same", []usage{{"cus_1", "seats", "5", minute}}, []doubtful{{usage{"cus_1", "seats", "5", 2 * minute}, true, unknown}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, sandbox.Config{})
			r.send(tt.sent...)
			want := map[int64]reconcile.Verdict{}
			for _, d := range tt.doubts {
				want[r.doubt(d.usage, d.arrived)] = d.want
			}
			if tt.foreign != nil {
				r.foreign(*tt.foreign)
			}
			got := r.examine(reconcile.Query{Uncertain: true})
			seen := 0
			for _, f := range got.Findings {
				for _, d := range f.Doubts {
					seen++
					if d.Verdict != want[d.ID] || d.Why == "" {
						t.Errorf("item %d of %s: %s (%s), want %s", d.ID, d.Value, d.Verdict, d.Why, want[d.ID])
					}
				}
			}
			if seen != len(want) {
				t.Errorf("%d items were judged, want %d", seen, len(want))
			}
		})
	}
}

// With many doubtful items only the plain cases are told apart.
func TestEvidenceOfMany(t *testing.T) {
	for _, arrived := range []bool{true, false} {
		r := newRig(t, sandbox.Config{})
		for range 18 {
			r.doubt(usage{"cus_1", "tokens", "3", minute}, arrived)
		}
		want := reconcile.NotCounted
		if arrived {
			want = reconcile.Counted
		}
		for _, d := range r.examine(reconcile.Query{Uncertain: true}).Findings[0].Doubts {
			if d.Verdict != want {
				t.Errorf("arrived %v: got %s (%s)", arrived, d.Verdict, d.Why)
			}
		}
	}
}

// While something else of the hour is on its way, or the item has become uncertain just now, nothing is proven.
func TestEvidenceNeedsQuiet(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	r.doubt(usage{"cus_1", "tokens", "3", minute}, true)
	r.claim(r.enqueue(usage{"cus_1", "tokens", "3", minute}))
	doubts := r.examine(reconcile.Query{Uncertain: true}).Findings[0].Doubts
	if len(doubts) != 1 || doubts[0].Verdict != reconcile.CannotTell {
		t.Errorf("on its way: got %+v", doubts)
	}

	r = newRig(t, sandbox.Config{ProcessingDelay: time.Hour})
	r.config.Settle = 10 * time.Minute
	r.doubt(usage{"cus_1", "tokens", "3", minute}, true)
	doubts = r.examine(reconcile.Query{Uncertain: true}).Findings[0].Doubts
	if len(doubts) != 1 || doubts[0].Verdict != reconcile.CannotTell {
		t.Errorf("just now: got %+v", doubts)
	}
}

// The books lag: what is missing today is there tomorrow, and the drift is over.
func TestBooksThatLag(t *testing.T) {
	r := newRig(t, sandbox.Config{ProcessingDelay: 30 * time.Minute})
	ids := r.send(usage{"cus_1", "tokens", "3", minute})
	r.pass()
	wantDrift(t, r.drift(), "weir", "3", "0")
	r.sandbox.Advance(time.Hour)
	r.pass()
	r.states(machine.Confirmed, ids...)
	r.noDrift()
}
