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
	Items    int        `json:"drain_items"`
	Calls    int        `json:"call_items"`
	Delay    float64    `json:"call_delay_ms"`
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
	Call     float64   `json:"calls_per_second"`
	Repeats  int       `json:"repeated_requests"`
	P50Ratio float64   `json:"p50_over_weirs"`
	P99Ratio float64   `json:"p99_over_weirs"`
	Slower   float64   `json:"weirs_drain_over_this"`
	Fewer    float64   `json:"weirs_calls_over_this"`
	P50s     []float64 `json:"p50_ms_rounds"`
	P99s     []float64 `json:"p99_ms_rounds"`
	Drains   []float64 `json:"drain_rounds"`
	Calls    []float64 `json:"calls_rounds"`
}

func newResult(o options, major int, chosen []peer) *result {
	r := &result{
		Postgres: major, CPUs: runtime.NumCPU(), Rate: o.rate, Items: o.items,
		Calls: o.calls, Delay: o.delay.Seconds() * 1000, Rounds: o.rounds, Memory: o.postgresDir == "",
	}
	for _, p := range chosen {
		r.Peers = append(r.Peers, &figures{Name: p.name, Settings: p.settings})
	}
	return r
}

func (r *result) finish() {
	weir := r.Peers[0]
	for _, f := range r.Peers {
		f.P50, f.P99, f.Drain, f.Call = median(f.P50s), median(f.P99s), median(f.Drains), median(f.Calls)
		f.P50Ratio, f.P99Ratio = median(ratios(f.P50s, weir.P50s)), median(ratios(f.P99s, weir.P99s))
		f.Slower, f.Fewer = median(ratios(weir.Drains, f.Drains)), median(ratios(weir.Calls, f.Calls))
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
	fmt.Fprintf(w, `Postgres %d %s, %d CPUs, medians of %d rounds and of ratios within a round
p50, p99: from the commit to the request, at %.0f items/s
drain:    %d items for which nothing is sent
calls:    %d items to a receiver that takes %.0f ms for an answer

`, r.Postgres, where, r.CPUs, r.Rounds, r.Rate, r.Items, r.Calls, r.Delay)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }
	row("", "settings", "p50 ms", "÷ weir", "p99 ms", "÷ weir", "drain/s", "weir ÷", "calls/s", "weir ÷")
	for _, f := range r.Peers {
		row(f.Name, f.Settings,
			fmt.Sprintf("%.2f", f.P50), fmt.Sprintf("%.1f", f.P50Ratio),
			fmt.Sprintf("%.2f", f.P99), fmt.Sprintf("%.1f", f.P99Ratio),
			fmt.Sprintf("%.0f", f.Drain), fmt.Sprintf("%.1f", f.Slower),
			fmt.Sprintf("%.0f", f.Call), fmt.Sprintf("%.1f", f.Fewer))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, f := range r.Peers {
		if f.Repeats > 0 {
			fmt.Fprintf(w, "%s (%s) sent %d items again\n", f.Name, f.Settings, f.Repeats)
		}
	}
	return nil
}
