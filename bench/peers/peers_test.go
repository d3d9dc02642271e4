package main

import (
	"io"
	"os"
	"slices"
	"testing"
	"time"
)

// TestMain lets the test's program be a peer's process, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

// Every peer delivers every item once, and the figures are there.
func TestMeasure(t *testing.T) {
	r, err := measure(t.Context(), options{
		rate: 100, slice: 200 * time.Millisecond, items: 200, delay: time.Millisecond, calls: 20, rounds: 1,
		log: t.Output(), progress: func(step string) { t.Log(step) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Peers) != len(peers()) {
		t.Errorf("got %d peers, want %d", len(r.Peers), len(peers()))
	}
	for _, f := range r.Peers {
		if f.P50 <= 0 || f.P99 < f.P50 || f.Drain <= 0 || f.Call <= 0 || f.Repeats != 0 {
			t.Errorf("got %+v", f)
		}
	}
	if err := r.print(io.Discard); err != nil {
		t.Error(err)
	}
}

func TestPeersAreTold(t *testing.T) {
	var names []string
	for _, p := range peers() {
		names = append(names, p.String())
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(peers()) {
		t.Errorf("two peers have one name and settings: %q", names)
	}
}

func TestQuantile(t *testing.T) {
	var sorted []time.Duration
	for i := range 100 {
		sorted = append(sorted, time.Duration(i)*time.Millisecond)
	}
	for _, test := range []struct{ q, want float64 }{{0, 0}, {0.5, 50}, {0.99, 99}, {1, 99}} {
		if got := quantile(sorted, test.q); got != test.want {
			t.Errorf("quantile %v: got %v ms, want %v ms", test.q, got, test.want)
		}
	}
}

func TestFinish(t *testing.T) {
	r := result{Peers: []*figures{
		{P50s: []float64{1, 2, 4}, P99s: []float64{1, 2, 4}, Drains: []float64{30, 60, 90}, Calls: []float64{5, 5, 5}},
		{P50s: []float64{10, 10, 10}, P99s: []float64{2, 2, 2}, Drains: []float64{10, 10, 10}, Calls: []float64{10, 5, 1}},
	}}
	r.finish()
	if got := *r.Peers[1]; got.P50 != 10 || got.P50Ratio != 5 || got.P99Ratio != 1 || got.Slower != 6 || got.Fewer != 1 {
		t.Errorf("got %+v", got)
	}
}
