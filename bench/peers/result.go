package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is what a run shows. All of weir's figures are the first peer's.
type result struct {
	Postgres int        `json:"postgres"`
	CPUs     int        `json:"cpus"`
	Rate     float64    `json:"rate"`
	Items    int        `json:"items"`
	Rounds   int        `json:"rounds"`
	Memory   bool       `json:"in_memory"`
	Peers    []*figures `json:"peers"`
}

// figures are a peer's. The ratios are medians over the rounds of ratios within a round.
type figures struct {
	Name     string    `json:"name"`
	Settings string    `json:"settings"`
	P50      float64   `json:"p50_ms"`
	P99      float64   `json:"p99_ms"`
	Drain    float64   `json:"drain_items_per_second"`
	Repeats  int       `json:"repeated_requests"`
	P50Ratio float64   `json:"p50_over_weirs"`
	P99Ratio float64   `json:"p99_over_weirs"`
	Slower   float64   `json:"weirs_drain_over_this"`
	P50s     []float64 `json:"p50_ms_rounds"`
	P99s     []float64 `json:"p99_ms_rounds"`
	Drains   []float64 `json:"drain_rounds"`
}

func newResult(o options, major int, chosen []peer) *result {
	r := &result{
		Postgres: major, CPUs: runtime.NumCPU(), Rate: o.rate, Items: o.items, Rounds: o.rounds, Memory: o.postgresDir == "",
	}
	for _, p := range chosen {
		r.Peers = append(r.Peers, &figures{Name: p.name, Settings: p.settings})
	}
	return r
}

func (f *figures) addLatency(s spread) {
	f.P50s, f.P99s = append(f.P50s, s.p50), append(f.P99s, s.p99)
	f.Repeats += s.repeats
}

func (r *result) finish() {
	weir := r.Peers[0]
	for _, f := range r.Peers {
		f.P50, f.P99, f.Drain = median(f.P50s), median(f.P99s), median(f.Drains)
		f.P50Ratio, f.P99Ratio = median(ratios(f.P50s, weir.P50s)), median(ratios(f.P99s, weir.P99s))
		f.Slower = median(ratios(weir.Drains, f.Drains))
	}
}

// ratios are those of values of the same rounds.
func ratios(a, b []float64) []float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	return all
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(v)-1)/2] + sorted[len(v)/2]) / 2
}

// print is the result as a table.
func (r *result) print(w io.Writer) error {
	where := "on a disk"
	if r.Memory {
		where = "in memory"
	}
	fmt.Fprintf(w, "Postgres %d %s, %d CPUs; latency at %.0f items/s, drain of %d items; medians of %d rounds\n\n",
		r.Postgres, where, r.CPUs, r.Rate, r.Items, r.Rounds)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }
	row("", "settings", "p50 ms", "÷ weir", "p99 ms", "÷ weir", "items/s", "weir ÷")
	for _, f := range r.Peers {
		row(f.Name, f.Settings,
			fmt.Sprintf("%.2f", f.P50), fmt.Sprintf("%.1f", f.P50Ratio),
			fmt.Sprintf("%.2f", f.P99), fmt.Sprintf("%.1f", f.P99Ratio),
			fmt.Sprintf("%.0f", f.Drain), fmt.Sprintf("%.1f", f.Slower))
	}
	return table.Flush()
}
