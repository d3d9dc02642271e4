package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

func ringing(t *testing.T) (*doorbell, *Lane) {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	l := loose(t, &scripted{limits: exporter.Limits{Calls: 1, Batch: 1, Timeout: time.Second}})
	return &doorbell{lanes: map[string]*Lane{"x": l}, metrics: m}, l
}

// The server's clock may be anywhere: a delay counts from the commit, and starts at its arrival.
func TestDoorbell(t *testing.T) {
	commit := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		change replication.Change
		in     time.Duration // when the item is looked at; below zero: never
	}{
		"insert":               {replication.Change{Kind: replication.Insert, State: machine.Pending, NextAttemptAt: commit}, 0},
		"insert, slow clock":   {replication.Change{Kind: replication.Insert, State: machine.Pending, NextAttemptAt: commit.Add(time.Hour)}, 0},
		"insert, quarantined":  {replication.Change{Kind: replication.Insert, State: machine.Quarantined}, -1},
		"retry":                {replication.Change{Kind: replication.Update, State: machine.Pending, From: machine.Leased, NextAttemptAt: commit.Add(5 * time.Second)}, 5 * time.Second},
		"requeued":             {replication.Change{Kind: replication.Update, State: machine.Pending, From: machine.Quarantined, NextAttemptAt: commit.Add(-time.Hour)}, 0},
		"leased":               {replication.Change{Kind: replication.Update, State: machine.Leased, From: machine.Pending, LeaseExpiresAt: commit.Add(time.Minute)}, time.Minute + leaseSlack},
		"accepted":             {replication.Change{Kind: replication.Update, State: machine.Accepted, From: machine.Leased}, -1},
		"gone":                 {replication.Change{Kind: replication.Delete}, -1},
		"truncated":            {replication.Change{Kind: replication.Truncate}, -1},
		"announced":            {replication.Change{Kind: replication.Removed, Count: 3}, -1},
		"another relay's lane": {replication.Change{Kind: replication.Insert, Exporter: "y", State: machine.Pending}, -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, l := ringing(t)
				l.agenda.at(7, time.Now().Add(time.Hour)) // known from before
				change := tt.change
				change.ID = 7
				if change.Exporter == "" {
					change.Exporter = "x"
				}
				d.Begin(commit)
				d.Change(&change)
				d.Commit(1)
				if tt.in < 0 {
					time.Sleep(59 * time.Minute)
					wantIDs(t, l.agenda.take(9, time.Now()))
					return
				}
				time.Sleep(max(tt.in-1, 0))
				if tt.in > 0 {
					wantIDs(t, l.agenda.take(9, time.Now()))
				}
				time.Sleep(time.Nanosecond)
				wantIDs(t, l.agenda.take(9, time.Now()), 7)
			})
		})
	}
}

func TestDoorbellStartsAndStops(t *testing.T) {
	d, l := ringing(t)
	d.Started()
	if _, _, owed := l.agenda.depth(); !owed || !l.streaming.Load() {
		t.Error("want a sweep and no polling once the stream begins")
	}
	d.Stopped()
	if l.streaming.Load() {
		t.Error("want polling once the stream has ended")
	}
}

// An item that a person moves out of a line may be what all others wait for.
func TestDoorbellRingsForALineThatAPersonMoved(t *testing.T) {
	for order, want := range map[machine.Order]bool{machine.BestEffort: false, machine.StopTheLine: true} {
		d, l := ringing(t)
		l.order = order
		d.Change(&replication.Change{Kind: replication.Update, ID: 1, Exporter: "x", From: machine.Leased, State: machine.Uncertain})
		if _, _, owed := l.agenda.depth(); owed {
			t.Errorf("%s: want no sweep after a settle", order)
		}
		d.Change(&replication.Change{Kind: replication.Update, ID: 1, Exporter: "x", From: machine.Uncertain, State: machine.Accepted})
		if _, _, owed := l.agenda.depth(); owed != want {
			t.Errorf("%s: want a sweep %v, got %v", order, want, owed)
		}
	}
}

func TestSettlesSorts(t *testing.T) {
	var s settles
	policy := machine.DefaultPolicy()
	it := machine.Item{ID: 3, Token: 4, Attempts: 2, FirstAttempt: true}
	add := func(o exporter.Outcome) { s.add(&settlement{it, o}, policy) }
	add(exporter.Outcome{Kind: exporter.Accepted, Ref: "ev\x00_1\xff"})
	add(exporter.Outcome{Kind: exporter.Retry})
	add(exporter.Outcome{Kind: exporter.Retry, After: time.Minute, Cost: machine.Unsent})
	add(exporter.Outcome{Kind: exporter.Uncertain, Code: "u"})
	add(exporter.Outcome{Kind: exporter.Rejected, Code: "r"})
	add(exporter.Outcome{Kind: exporter.Quarantined, Code: "q"})
	if len(s.accept) != 1 || len(s.retry) != 2 || len(s.doubt) != 1 || len(s.reject) != 1 || len(s.quarantine) != 1 || s.len() != 6 {
		t.Fatalf("want each in its place, got %+v", s)
	}
	if s.accept[0].ProviderRef != "ev_1\uFFFD" || s.accept[0].Ref != it.Ref() {
		t.Errorf("want a reference that Postgres takes, under the claim, got %+v", s.accept[0])
	}
	if d := s.retry[0].Delay; d < 2*policy.Base || d > 2*policy.Base*5/4 {
		t.Errorf("want the policy's backoff, got %v", d)
	}
	if r := s.retry[1]; r.Delay != time.Minute || r.Cost != machine.Unsent || !r.First {
		t.Errorf("want the exporter's delay, and all undone, got %+v", r)
	}
	if s.doubt[0].Code != "u" || s.reject[0].Code != "r" || s.quarantine[0].Code != "q" || !s.quarantine[0].First {
		t.Errorf("want each with its cause, got %+v", s)
	}
}
