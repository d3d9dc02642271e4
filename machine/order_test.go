package machine

import (
	"strings"
	"testing"
	"time"
)

// keyed enqueues items named "source/key/n", "-" being NULL, and answers their ids by name.
func (f *fixture) keyed(names ...string) map[string]int64 {
	f.Helper()
	ids := map[string]int64{}
	for _, name := range names {
		part := strings.Split(strings.ReplaceAll(name, "-", ""), "/")
		ids[name] = f.stage(f.pool, intent{ref: name, source: part[0], orderKey: part[1]})
	}
	return ids
}

// takes claims in both ways, by id and by sweep, and wants the same.
func (f *fixture) takes(order Order, prepare func(ids map[string]int64), names []string, want ...string) {
	f.Helper()
	lane := Claimer{Exporter: "stripe", Owner: "w2", Order: order}
	for _, way := range []string{"claim", "sweep"} {
		f.clear()
		ids := f.keyed(names...)
		if prepare != nil {
			prepare(ids)
		}
		var items []Item
		var err error
		if way == "sweep" {
			items, err = f.Sweep(f.Context(), lane, 0, 100)
		} else {
			var all []int64
			for i := len(names) - 1; i >= 0; i-- { // in no order
				all = append(all, ids[names[i]])
			}
			items, err = f.Claim(f.Context(), lane, all)
		}
		if err != nil {
			f.Fatalf("%s: %v", way, err)
		}
		var got []string
		for _, it := range items {
			got = append(got, it.SubjectRef)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			f.Errorf("%s: want %v, got %v", way, want, got)
		}
	}
}

func TestOrders(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	names := []string{"s/k/1", "s/k/2", "s/l/3", "r/k/4", "-/k/5", "-/k/6", "s/-/7", "s/-/8", "-/-/9", "-/-/10"}
	for order, want := range map[Order][]string{
		"":          names,
		BestEffort:  names,
		PerKey:      {"s/k/1", "s/l/3", "r/k/4", "-/k/5", "s/-/7", "s/-/8", "-/-/9", "-/-/10"},
		StopTheLine: {"s/k/1"},
		PerSource:   {"s/k/1", "r/k/4", "-/k/5", "-/k/6", "-/-/9", "-/-/10"},
	} {
		t.Run(string("order "+order), func(t *testing.T) { f.with(t).takes(order, nil, names, want...) })
	}
}

// What becomes of the head of the line decides whether the next may go.
func TestHeadOfLine(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	heads := []struct {
		name   string
		do     func(f *fixture, head int64)
		taken  bool // the second is, where keys or sources are in order
		halted bool // the second isn't, where the line stops
	}{
		{"leased", func(f *fixture, head int64) { f.claimed(head) }, false, true},
		{"waiting for its retry", func(f *fixture, head int64) {
			f.postpone(f.claimed(head).Ref(), Postponement{Delay: time.Hour})
		}, false, true},
		{"accepted", func(f *fixture, head int64) { f.settle(Accepted, f.claimed(head).Ref()) }, true, false},
		{"confirmed", func(f *fixture, head int64) { f.settle(Confirmed, f.claimed(head).Ref()) }, true, false},
		{"uncertain", func(f *fixture, head int64) { f.settle(Uncertain, f.claimed(head).Ref()) }, true, true},
		{"rejected", func(f *fixture, head int64) { f.settle(Rejected, f.claimed(head).Ref()) }, true, true},
		{"quarantined", func(f *fixture, head int64) {
			if _, err := f.Quarantine(f.Context(), []Hold{{Ref: f.claimed(head).Ref()}}); err != nil {
				f.Fatal(err)
			}
		}, true, true},
		{"abandoned", func(f *fixture, head int64) {
			f.settle(Rejected, f.claimed(head).Ref())
			if err := f.Abandon(f.Context(), head, Rejected, operator); err != nil {
				f.Fatal(err)
			}
		}, true, false},
		{"recovered", func(f *fixture, head int64) {
			claim := f.claimed(head).Ref()
			f.settle(Uncertain, claim)
			if err := f.Recover(f.Context(), claim, RecoverRetry, operator); err != nil {
				f.Fatal(err)
			}
			f.postpone(f.claimed(head).Ref(), Postponement{Delay: time.Hour})
		}, false, true},
	}
	for _, order := range []Order{PerKey, PerSource, StopTheLine} {
		for _, head := range heads {
			t.Run(string(order)+" head "+head.name, func(t *testing.T) {
				var want []string
				if order != StopTheLine && head.taken || order == StopTheLine && !head.halted {
					want = []string{"s/k/2"}
				}
				f := f.with(t)
				f.takes(order, func(ids map[string]int64) { head.do(f, ids["s/k/1"]) }, []string{"s/k/1", "s/k/2"}, want...)
			})
		}
	}
}

// What its producer quarantined was never in the line, and doesn't stop it.
func TestLineIgnoresWhatWasNeverSent(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	f.takes(StopTheLine, func(map[string]int64) {
		f.stage(f.pool, intent{ref: "unfit", quarantine: "no_customer"})
	}, []string{"s/k/1", "s/k/2"}, "s/k/1")
}

// Lanes don't wait for one another.
func TestOrderIsPerExporter(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	f.stage(f.pool, intent{ref: "1", exporter: "webhook", source: "s", orderKey: "k"})
	f.stage(f.pool, intent{ref: "2", source: "s", orderKey: "k"})
	for _, order := range []Order{PerKey, PerSource} {
		items, err := f.Sweep(t.Context(), Claimer{"stripe", "w", order}, 0, 10)
		if err != nil || len(items) != 1 {
			t.Fatalf("%s: want one item, got %v, %v", order, items, err)
		}
		f.postpone(items[0].Ref(), Postponement{})
	}
}

func TestUnknownOrderIsAnError(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	f.backlog(1)
	lane := Claimer{Exporter: "stripe", Owner: "w", Order: "per-key"}
	if _, err := f.Sweep(t.Context(), lane, 0, 1); err == nil || !strings.Contains(err.Error(), "per-key") {
		t.Errorf("sweep: want an error that names it, got %v", err)
	}
	if _, err := f.Claim(t.Context(), lane, []int64{1}); err == nil || !strings.Contains(err.Error(), "per-key") {
		t.Errorf("claim: want an error that names it, got %v", err)
	}
}
