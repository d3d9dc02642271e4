package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
)

const minute = time.Minute

// By each formula, what Stripe has counted is confirmed, and what it hasn't is not.
func TestFormulas(t *testing.T) {
	tests := []struct {
		name    string
		sent    []usage
		lost    *usage // accepted by weir, never arrived
		foreign *usage
		side    string // of the drift, "" for none
		want    [2]string
	}{
		{"sum", []usage{{"cus_1", "tokens", "5", minute}, {"cus_1", "tokens", "7.25", 2 * minute}}, nil, nil, "", [2]string{}},
		{"sum, corrected below zero", []usage{{"cus_1", "tokens", "5", minute}, {"cus_1", "tokens", "-9", 2 * minute}}, nil, nil, "", [2]string{}},
		{"sum of nothing", []usage{{"cus_1", "tokens", "5", minute}, {"cus_1", "tokens", "-5", 2 * minute}}, nil, nil, "", [2]string{}},
		{"sum, tenths", []usage{{"cus_1", "tokens", "0.1", minute}, {"cus_1", "tokens", "0.2", minute}, {"cus_1", "tokens", "0.000000000001", minute}}, nil, nil, "", [2]string{}},
		{"sum, 15 digits", []usage{{"cus_1", "tokens", "999999999999999", minute}}, nil, nil, "", [2]string{}},
		{"sum, lost", []usage{{"cus_1", "tokens", "5", minute}}, &usage{"cus_1", "tokens", "3", minute}, nil, "weir", [2]string{"8", "5"}},
		{"sum, all lost", nil, &usage{"cus_1", "tokens", "3", minute}, nil, "weir", [2]string{"3", "0"}},
		{"sum, foreign", []usage{{"cus_1", "tokens", "5", minute}}, nil, &usage{"cus_1", "tokens", "2", minute}, "provider", [2]string{"5", "7"}},
		{"count", []usage{{"cus_1", "calls", "5", minute}, {"cus_1", "calls", "5", 2 * minute}}, nil, nil, "", [2]string{}},
		{"count, lost", []usage{{"cus_1", "calls", "5", minute}}, &usage{"cus_1", "calls", "9", minute}, nil, "weir", [2]string{"2", "1"}},
		{"count, foreign", []usage{{"cus_1", "calls", "5", minute}}, nil, &usage{"cus_1", "calls", "9", minute}, "provider", [2]string{"1", "2"}},
		{"last", []usage{{"cus_1", "seats", "5", 2 * minute}, {"cus_1", "seats", "4", minute}}, nil, nil, "", [2]string{}},
		{"last, in one second", []usage{{"cus_1", "seats", "5", minute}, {"cus_1", "seats", "4", minute}}, nil, nil, "", [2]string{}},
		{"last, lost", []usage{{"cus_1", "seats", "5", minute}}, &usage{"cus_1", "seats", "6", 2 * minute}, nil, "weir", [2]string{"6", "5"}},
		{"last, foreign", []usage{{"cus_1", "seats", "5", minute}}, nil, &usage{"cus_1", "seats", "9", 3 * minute}, "provider", [2]string{"5", "9"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, sandbox.Config{})
			ids := r.send(tt.sent...)
			if tt.lost != nil {
				ids = append(ids, r.lose(*tt.lost))
			}
			if tt.foreign != nil {
				r.foreign(*tt.foreign)
			}
			r.pass()
			if tt.side == "" {
				r.states(machine.Confirmed, ids...)
				r.noDrift()
				return
			}
			r.states(machine.Accepted, ids...)
			wantDrift(t, r.drift(), tt.side, tt.want[0], tt.want[1])
		})
	}
}

// A difference in one bucket keeps only that one back, and names the items that would explain it.
func TestDriftIsItsBuckets(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	good := r.send(usage{"cus_1", "tokens", "5", minute}, usage{"cus_2", "tokens", "5", minute}, usage{"cus_1", "tokens", "5", 61 * minute}, usage{"cus_1", "calls", "1", minute})
	kept := r.send(usage{"cus_3", "tokens", "2", minute}, usage{"cus_3", "tokens", "4", minute})
	lost := r.lose(usage{"cus_3", "tokens", "3", minute})
	r.pass()
	r.states(machine.Confirmed, good...)
	r.states(machine.Accepted, append(kept, lost)...)
	d := r.drift()
	wantDrift(t, d, "weir", "9", "6")
	if len(d.Candidates) != 1 || d.Candidates[0].ID != lost || !d.Hour.Equal(r.hour) {
		t.Errorf("want item %d as the only candidate, got %+v", lost, d)
	}
	if err := testutil.GatherAndCompare(r.registry, strings.NewReader(`
# HELP weir_reconcile_drift Hours of a customer's usage on a meter in which the provider's books differ from weir's, by who has more: provider, weir; or unclear.
# TYPE weir_reconcile_drift gauge
weir_reconcile_drift{exporter="stripe",side="provider"} 0
weir_reconcile_drift{exporter="stripe",side="unclear"} 0
weir_reconcile_drift{exporter="stripe",side="weir"} 1
`), "weir_reconcile_drift"); err != nil {
		t.Error(err)
	}

	// The provider's report comes late. The rest of the bucket then agrees, and the drift is over.
	report(r, lost)
	r.pass()
	r.states(machine.Confirmed, kept...)
	r.states(machine.Rejected, lost)
	r.noDrift()
	if n := r.count(`SELECT count(*) FROM weir.drifts WHERE resolved_at IS NOT NULL AND checks = 1`); n != 1 {
		t.Errorf("want the resolved drift kept, got %d", n)
	}
}

func report(r *rig, id int64) {
	r.Helper()
	var identity []byte
	if err := r.pool.QueryRow(r.Context(), `SELECT identity FROM weir.outbox WHERE id = $1`, id).Scan(&identity); err != nil {
		r.Fatal(err)
	}
	ids, err := r.store.Report(r.Context(), []machine.Refusal{{Identity: [32]byte(identity), Cause: machine.Cause{Code: "meter_event_customer_not_found"}}})
	if err != nil || len(ids) != 1 {
		r.Fatalf("report: %v, %v", ids, err)
	}
}

// Usage that arrives in an hour that is confirmed already is compared together with what is confirmed, also when the items
// of that are gone.
func TestLateArrivals(t *testing.T) {
	for _, meter := range []string{"tokens", "calls", "seats"} {
		t.Run(meter, func(t *testing.T) {
			r := newRig(t, sandbox.Config{})
			r.send(usage{"cus_1", meter, "5", 3 * minute}, usage{"cus_1", meter, "6", 2 * minute})
			r.pass()
			r.db.Exec(t, `DELETE FROM weir.deliveries`)
			r.db.Exec(t, `DELETE FROM weir.outbox`)
			late := r.send(usage{"cus_1", meter, "-2", minute})
			r.pass()
			r.states(machine.Confirmed, late...)
			r.noDrift()
			again := r.send(usage{"cus_1", meter, "8", 9 * minute})
			lost := r.lose(usage{"cus_1", meter, "1", 10 * minute})
			r.pass()
			r.states(machine.Accepted, append(again, lost)...)
			if d := r.drift(); d.Side != "weir" && meter != "seats" {
				t.Errorf("got %+v", d)
			}
		})
	}
}

// Stripe has forgotten the identifier when the item is sent again: it counts both.
func TestBilledTwice(t *testing.T) {
	r := newRig(t, sandbox.Config{UniquenessWindow: time.Minute, IdempotencyWindow: time.Minute})
	id := r.enqueue(usage{"cus_1", "tokens", "5", minute})
	other := r.send(usage{"cus_1", "tokens", "2", minute})
	items := r.claim(id)
	r.deliver(items)
	r.sandbox.Advance(2 * time.Minute)
	r.deliver(items)
	r.accept(items)
	if n := r.sandbox.Totals().BilledAgain; n != 1 {
		t.Fatalf("the sandbox billed %d again", n)
	}
	r.pass()
	r.states(machine.Accepted, id, other[0])
	d := r.drift()
	wantDrift(t, d, "provider", "7", "12")
	if len(d.Candidates) != 1 || d.Candidates[0].ID != id || !strings.Contains(d.Candidates[0].Why, "twice") {
		t.Errorf("want item %d as counted twice, got %+v", id, d.Candidates)
	}
}

// A cancellation takes its event out of both books.
func TestCancellations(t *testing.T) {
	for meter, side := range map[string]string{"tokens": "", "calls": "", "seats": "unclear"} {
		t.Run(meter, func(t *testing.T) {
			r := newRig(t, sandbox.Config{})
			ids := r.send(usage{"cus_1", meter, "5", minute}, usage{"cus_1", meter, "7", 2 * minute})
			r.pass()
			r.states(machine.Confirmed, ids...)
			var identifier string
			if err := r.pool.QueryRow(t.Context(), `SELECT identifier FROM weir.items WHERE id = $1`, ids[1]).Scan(&identifier); err != nil {
				t.Fatal(err)
			}
			id := r.insert("adjustment", fmt.Sprintf(`{"meter": %q, "cancel": %q}`, meter, identifier))
			items := r.claim(id)
			r.deliver(items)
			r.accept(items)
			r.pass()
			if side != "" {
				r.states(machine.Accepted, id)
				if d := r.drift(); d.Side != side {
					t.Errorf("got %+v", d)
				}
				return
			}
			r.states(machine.Confirmed, id)
			r.noDrift()
		})
	}
}

// A bucket with something on its way isn't compared, and nothing is said of it.
func TestMovingBucketsWait(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	ids := r.send(usage{"cus_1", "tokens", "5", minute})
	id := r.enqueue(usage{"cus_1", "tokens", "2", minute})
	items := r.claim(id)
	r.deliver(items) // arrived, and weir doesn't know yet
	r.pass()
	r.states(machine.Accepted, ids...)
	r.noDrift()
	r.accept(items)
	r.pass()
	r.states(machine.Confirmed, append(ids, id)...)

	// What was accepted within the settle delay waits too.
	r.config.Settle = time.Hour
	late := r.lose(usage{"cus_1", "tokens", "9", minute})
	r.pass()
	r.states(machine.Accepted, late)
	r.noDrift()
}

// Hours that aren't over aren't compared.
func TestCurrentHourWaits(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	r.hour = time.Now().UTC().Truncate(time.Hour)
	lost := r.lose(usage{"cus_1", "tokens", "9", 0})
	r.pass()
	r.states(machine.Accepted, lost)
	r.noDrift()
}

// An equal number proves nothing while a doubtful item may make up for one that is missing.
func TestCoincidenceIsUnclear(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	ids := r.send(usage{"cus_1", "tokens", "5", minute})
	r.doubt(usage{"cus_1", "tokens", "4", minute}, false)
	r.doubt(usage{"cus_1", "tokens", "-4", minute}, false)
	r.pass()
	r.states(machine.Accepted, ids...)
	if d := r.drift(); d.Side != "unclear" || len(d.Candidates) != 2 {
		t.Errorf("got %+v", d)
	}
}

// Meters whose events replace each other are left alone, and cost no question.
func TestPreAggregatedMetersAreLeftAlone(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	ids := r.send(usage{"cus_1", "hourly", "5", minute}, usage{"cus_1", "hourly", "6", minute})
	r.pass()
	r.states(machine.Accepted, ids...)
	r.noDrift()
	if n := testutil.CollectAndCount(r.registry, "weir_reconcile_reads_total"); n != 1 {
		t.Fatalf("no counter: %d", n)
	}
}

// One question covers 100 hours, the questions are bounded, and those who have waited longest come first.
func TestReadsAreFew(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	var ids []int64
	for i := range 12 {
		r.hour = time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(100-8*i) * time.Hour)
		ids = append(ids, r.send(usage{"cus_1", "tokens", fmt.Sprint(i + 1), 0})...)
	}
	other := r.send(usage{"cus_2", "tokens", "1", 0})
	third := r.send(usage{"cus_3", "tokens", "1", 0})
	r.config.ReadsPerHour = 1
	c := r.reconciler()
	r.passWith(c)
	r.states(machine.Confirmed, ids...)
	r.states(machine.Accepted, append(other, third...)...)
	r.passWith(c) // no reads are left
	r.states(machine.Accepted, append(other, third...)...)
	r.db.Exec(t, `UPDATE weir.reconcilers SET reads_at = reads_at - interval '1 hour'`)
	r.passWith(c)
	r.states(machine.Confirmed, other...)
	r.states(machine.Accepted, third...)
}

// A pass that fails in the middle keeps what it has found; the next one goes on.
func TestStripeFailsInTheMiddle(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	first := r.send(usage{"cus_1", "tokens", "1", 0})
	second := r.send(usage{"cus_2", "tokens", "1", 0})
	if _, err := r.sandbox.AddFault(sandbox.Rule{
		Match:  sandbox.Match{PathPrefix: "/v1/billing/meters/", Skip: 1, First: 1},
		Action: sandbox.Action{Kind: sandbox.FaultRateLimit},
	}); err != nil {
		t.Fatal(err)
	}
	c := r.reconciler()
	r.db.Exec(t, `DELETE FROM weir.reconcilers`)
	if _, err := c.Turn(t.Context()); err == nil || !strings.Contains(err.Error(), "cus_2") {
		t.Errorf("want the failure, got %v", err)
	}
	r.states(machine.Confirmed, first...)
	r.states(machine.Accepted, second...)
	r.passWith(c)
	r.states(machine.Confirmed, second...)
}

// A crash between two portions of a bucket leaves books that agree.
func TestRestartInTheMiddle(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	ids := r.send(usage{"cus_1", "tokens", "1", 0}, usage{"cus_1", "tokens", "2", 0}, usage{"cus_1", "tokens", "4", 0})
	// The first portion had been written when the process died.
	if _, err := r.store.Confirm(t.Context(), ids[:1]); err != nil {
		t.Fatal(err)
	}
	r.db.Exec(t, `INSERT INTO weir.buckets (exporter, mode, meter, customer, hour, events, value, last_at, last_value)
		VALUES ('stripe', 'test', 'tokens', 'cus_1', $1, 1, 1, $1, 1)`, r.hour)
	r.pass()
	r.states(machine.Confirmed, ids...)
	r.noDrift()
	if n := r.count(`SELECT value::bigint FROM weir.buckets`); n != 7 {
		t.Errorf("the bucket holds %d", n)
	}
}

// Many items are confirmed in portions.
func TestPortions(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	var list []usage
	for range 1200 {
		list = append(list, usage{"cus_1", "tokens", "0.5", minute})
	}
	ids := r.send(list...)
	r.pass()
	r.states(machine.Confirmed, ids...)
	if n := r.count(`SELECT events FROM weir.buckets WHERE value = 600`); n != 1200 {
		t.Errorf("the bucket holds %d", n)
	}
}

// What others report is seen where a person asks for whole hours.
func TestExamineSeesForeignHours(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	r.foreign(usage{"cus_1", "tokens", "3", 61 * minute})
	r.send(usage{"cus_1", "tokens", "5", minute})
	got := r.examine(reconcile.Query{Meter: "tokens", Customer: "cus_1", From: r.hour, To: r.hour.Add(4 * time.Hour)})
	if len(got.Findings) != 2 || got.Reads != 1 || got.Findings[0].Standing != reconcile.Agrees || got.Findings[1].Standing != reconcile.Differs ||
		got.Findings[1].Side() != "provider" {
		t.Errorf("got %+v", got)
	}
}

// Of two relays one makes the pass.
func TestTurns(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	r.config.Interval = time.Hour
	a, b := r.reconciler(), r.reconciler()
	if _, err := a.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait, err := b.Turn(t.Context())
	if err != nil || wait < 50*time.Minute || wait > time.Hour {
		t.Errorf("want to wait, got %v, %v", wait, err)
	}
	if n := r.count(`SELECT passes FROM weir.reconcilers`); n != 1 {
		t.Errorf("%d passes", n)
	}
}

// A report may come before weir knows of the acceptance: the item is rejected once it does. Meanwhile an uncertain one is
// known to be refused.
func TestLateReports(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	item := r.claim(r.enqueue(usage{"cus_1", "tokens", "2", minute}))
	doubted := r.doubt(usage{"cus_1", "tokens", "3", minute}, false)
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		var identity []byte
		if err := tx.QueryRow(t.Context(), `SELECT identity FROM weir.outbox WHERE id = $1`, doubted).Scan(&identity); err != nil {
			return err
		}
		other := [32]byte(identity)
		return reconcile.NoteSuspects(t.Context(), tx, []reconcile.Suspect{
			{Exporter: "stripe", Event: "evt_1", Code: "archived_meter", Detail: "it is archived", Identity: &item[0].Identity, Events: 1},
			{Exporter: "stripe", Event: "evt_1", Code: "archived_meter", Detail: "it is archived", Identity: &other, Events: 1},
			{Exporter: "stripe", Event: "evt_1", Code: "archived_meter", Meter: "mtr_1", Events: 4},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	r.accept(item)
	doubts := r.examine(reconcile.Query{Uncertain: true})
	if len(doubts.Findings) != 1 || doubts.Findings[0].Doubts[0].Verdict != reconcile.Reported {
		t.Errorf("got %+v", doubts)
	}
	r.pass()
	r.states(machine.Rejected, item[0].ID)
	var cause string
	if err := r.pool.QueryRow(t.Context(), `SELECT last_error FROM weir.deliveries WHERE id = $1`, item[0].ID).Scan(&cause); err != nil || cause != "archived_meter: it is archived" {
		t.Errorf("last_error %q, %v", cause, err)
	}
	if n := r.count(`SELECT count(*) FROM weir.suspects WHERE settled_at IS NULL`); n != 1 {
		t.Errorf("%d suspects are open, want that of the uncertain item", n)
	}
}

// Two passes at once confirm a bucket once.
func TestPassesAtOnce(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	ids := r.send(usage{"cus_1", "tokens", "1", 0}, usage{"cus_1", "tokens", "2", 0})
	a, b := r.examine(reconcile.Query{}), r.examine(reconcile.Query{})
	for i, report := range []*reconcile.Report{a, b} {
		n, err := r.reconciler().Apply(t.Context(), report)
		if err != nil || n != 2-2*i {
			t.Errorf("pass %d confirmed %d, %v", i, n, err)
		}
	}
	r.states(machine.Confirmed, ids...)
	if n := r.count(`SELECT value::bigint FROM weir.buckets`); n != 3 {
		t.Errorf("the bucket holds %d", n)
	}
}

// A customer whom Stripe has forgotten keeps nobody else back.
func TestUnknownCustomer(t *testing.T) {
	r := newRig(t, sandbox.Config{Customers: []sandbox.Customer{{ID: "cus_2"}}})
	gone := r.lose(usage{"cus_1", "tokens", "5", minute})
	other := r.send(usage{"cus_2", "tokens", "5", minute})
	r.pass()
	r.states(machine.Accepted, gone)
	r.states(machine.Confirmed, other...)
	if d := r.drift(); d.Side != "unclear" || d.Customer != "cus_1" || !strings.Contains(d.Why, "No such customer") {
		t.Errorf("got %+v", d)
	}
}

// What a person has found out about a drift ends it, as far as Stripe's number bears it out.
func TestPeopleSettleDrifts(t *testing.T) {
	by := machine.Operator{Actor: "ada", Reason: "asked"}
	for _, meter := range []string{"tokens", "calls", "seats"} {
		t.Run("acknowledge "+meter, func(t *testing.T) {
			r := newRig(t, sandbox.Config{})
			ids := r.send(usage{"cus_1", meter, "5", minute})
			r.foreign(usage{"cus_1", meter, "3", 2 * minute})
			f := r.examine(reconcile.Query{}).Findings[0]
			if meter == "seats" { // the foreign value is lower: weir has more
				if err := r.reconciler().Acknowledge(t.Context(), &f, by); err == nil {
					t.Error("acknowledged what weir has more")
				}
				return
			}
			if err := r.reconciler().Acknowledge(t.Context(), &f, machine.Operator{Actor: "ada"}); err == nil {
				t.Error("want a reason to be demanded")
			}
			if err := r.reconciler().Acknowledge(t.Context(), &f, by); err != nil {
				t.Fatal(err)
			}
			if err := r.reconciler().Acknowledge(t.Context(), &f, by); err == nil {
				t.Error("acknowledged twice")
			}
			r.pass()
			r.states(machine.Confirmed, ids...)
			r.noDrift()
			if n := r.count(`SELECT count(*) FROM weir.drifts WHERE acknowledged_by = 'ada' AND resolved_at IS NOT NULL`); n != 1 {
				t.Errorf("%d acknowledged drifts", n)
			}
		})
	}
	t.Run("acknowledge a last value", func(t *testing.T) {
		r := newRig(t, sandbox.Config{})
		ids := r.send(usage{"cus_1", "seats", "5", minute})
		r.foreign(usage{"cus_1", "seats", "9", 2 * minute})
		f := r.examine(reconcile.Query{}).Findings[0]
		if err := r.reconciler().Acknowledge(t.Context(), &f, by); err != nil {
			t.Fatal(err)
		}
		r.pass()
		r.states(machine.Confirmed, ids...)
	})
	t.Run("missing", func(t *testing.T) {
		r := newRig(t, sandbox.Config{})
		ids := r.send(usage{"cus_1", "tokens", "5", minute}, usage{"cus_1", "tokens", "1", minute})
		lost := r.lose(usage{"cus_1", "tokens", "3", minute})
		f := r.examine(reconcile.Query{}).Findings[0]
		for _, wrong := range [][]int64{ids, {lost, ids[1]}, {lost, lost}, {lost, 4711}, nil} {
			if err := r.reconciler().Missing(t.Context(), &f, wrong, by); err == nil {
				t.Errorf("%v: nothing proves that these are missing", wrong)
			}
		}
		if err := r.reconciler().Missing(t.Context(), &f, []int64{lost}, by); err != nil {
			t.Fatal(err)
		}
		r.states(machine.Rejected, lost)
		r.pass()
		r.states(machine.Confirmed, ids...)
		if n := r.count(`SELECT count(*) FROM weir.operations WHERE action = 'reconcile' AND item_id = $1 AND to_state = 'rejected'`, lost); n != 1 {
			t.Errorf("%d operations", n)
		}
	})
}

// Where more items wait than may be held, a pass looks at whole buckets of a part of them; the others have their turn.
func TestParts(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	var ids []int64
	for i := range 12 {
		customer := fmt.Sprintf("cus_%d", i)
		ids = append(ids, r.send(usage{customer, "tokens", "1", 0}, usage{customer, "tokens", "2", minute})...)
	}
	r.config.Portion = 8
	c := r.reconciler()
	for range 8 {
		r.passWith(c)
		r.noDrift()
	}
	r.states(machine.Confirmed, ids...)
}
