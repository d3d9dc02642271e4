package bench

import "fmt"

// Rows is the report as a table.
func (l *Latency) Rows() [][]string {
	rows := [][]string{
		{"commit → provider, " + fmt.Sprintf("%.0f items/s", l.Rate), "mean", "p50", "p90", "p99", "p99.9", "max", "ms"},
		l.Floor.row("floor"), l.Weir.row("weir"), l.Accepted.row("weir, commit → accepted"),
		{"ratio p50", fmt.Sprintf("%.2f", l.Ratio.P50), goal("≤", l.Goal.P50, l.Ratio.P50 <= l.Goal.P50)},
		{"ratio p99", fmt.Sprintf("%.2f", l.Ratio.P99), goal("≤", l.Goal.P99, l.Ratio.P99 <= l.Goal.P99)},
	}
	return append(rows, expenses("floor", l.FloorExpense, "weir", l.WeirExpense)...)
}

// Rows is the report as a table.
func (d *Drain) Rows() [][]string {
	stream := "reading the log"
	if !d.Stream {
		stream = "without the stream"
	}
	rows := [][]string{
		{"ceiling", fmt.Sprintf("%.0f items/s", d.Ceiling), rates(d.CeilingRates)},
		{"weir, " + stream, fmt.Sprintf("%.0f items/s", d.Weir), rates(d.WeirRates)},
		{"ratio", fmt.Sprintf("%.2f", d.Ratio), goal("≥", d.Goal, d.Met)},
		{"log written, ratio", fmt.Sprintf("%.2f", d.WAL.Ratio), goal("≤", d.WAL.Goal, d.WAL.Met)},
	}
	return append(rows, expenses("ceiling", d.CeilingExpense, "weir", d.WeirExpense)...)
}

func (d Distribution) row(name string) []string {
	row := []string{name}
	for _, v := range []float64{d.Mean, d.P50, d.P90, d.P99, d.P999, d.Max} {
		row = append(row, fmt.Sprintf("%.2f", v))
	}
	return append(row, fmt.Sprintf("%d items", d.Count))
}

func goal(sign string, value float64, met bool) string {
	if met {
		return fmt.Sprintf("goal %s %g: met", sign, value)
	}
	return fmt.Sprintf("goal %s %g: missed", sign, value)
}

func rates(v []float64) string { return fmt.Sprintf("rounds %.0f", v) }

// expenses shows what reference and weir cost.
func expenses(reference string, a Expense, weir string, b Expense) [][]string {
	rows := [][]string{{"cost", reference, weir}}
	add := func(name, format string, x, y any) {
		rows = append(rows, []string{name, fmt.Sprintf(format, x), fmt.Sprintf(format, y)})
	}
	add("log written an item", "%.0f B", a.WALBytes, b.WALBytes)
	add("HOT updates", "%.2f", a.HOT, b.HOT)
	add("CPU of Postgres", "%.2f s", a.PostgresCPU, b.PostgresCPU)
	rows = append(rows,
		[]string{"CPU of the relay", "", fmt.Sprintf("%.2f s", b.RelayCPU)},
		[]string{"memory of the relay", "", mebibytes(b.MaxRSS) + " at most"})
	return rows
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
