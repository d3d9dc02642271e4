package bench

import "fmt"

// Rows is the report as a table.
func (l *Latency) Rows() [][]string {
	rows := [][]string{
		{"commit → provider, " + fmt.Sprintf("%.0f items/s", l.Rate), "mean", "p10", "p50", "p90", "p99", "p99.9", "max", "ms"},
		l.Floor.row("floor"), l.FloorClaimed.row("  to the claim"),
		l.Weir.row("weir"), l.WeirClaimed.row("  to the claim"), l.Accepted.row("weir, commit → accepted"),
		{"ratio p10", fmt.Sprintf("%.2f", l.Ratio.P10), "what a quiet machine would show"},
		{"ratio p50", fmt.Sprintf("%.2f", l.Ratio.P50), goal("≤", l.Goal.P50, l.Ratio.P50 <= l.Goal.P50)},
		{"ratio p99", fmt.Sprintf("%.2f", l.Ratio.P99), goal("≤", l.Goal.P99, l.Ratio.P99 <= l.Goal.P99)},
	}
	rows = append(rows, []string{"claims before the commit could be seen", fmt.Sprintf("%.3f", l.Unseen)})
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
	for _, v := range []float64{d.Mean, d.P10, d.P50, d.P90, d.P99, d.P999, d.Max} {
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

// Rows is the report as a table.
func (i *Idle) Rows() [][]string {
	perMinute := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	rows := [][]string{
		{"statements a minute, idle", "", fmt.Sprintf("in %.0f s", i.Seconds)},
		{"checkpoint", perMinute(i.Checkpoint)},
		{"status", perMinute(i.Status)},
		{"other", perMinute(i.Other), goal("≤", i.Goal, i.Met)},
	}
	for _, text := range i.Others {
		rows = append(rows, []string{"", text})
	}
	return append(rows,
		[]string{"CPU of the relay", fmt.Sprintf("%.2f s", i.Expense.RelayCPU)},
		[]string{"CPU of Postgres", fmt.Sprintf("%.2f s", i.Expense.PostgresCPU)},
		[]string{"memory of the relay", mebibytes(i.Expense.MaxRSS)})
}

// Rows is the report as a table.
func (s *Soak) Rows() [][]string {
	return [][]string{
		{fmt.Sprintf("%.0f items/s, %.0f ms provider", s.Rate, s.Latency), "mean", "p10", "p50", "p90", "p99", "p99.9", "max", "ms"},
		s.Arrived.row("commit → provider"), s.Accepted.row("commit → accepted"),
		{"p99 commit → accepted", fmt.Sprintf("%.0f ms", s.Accepted.P99), goal("≤", s.Goal.AcceptedP99, s.Accepted.P99 <= s.Goal.AcceptedP99)},
		{"CPU of the relay", fmt.Sprintf("%.2f cores", s.Cores), goal("≤", s.Goal.Cores, s.Cores <= s.Goal.Cores)},
		{"items", fmt.Sprint(s.Items), fmt.Sprintf("in %.0f s", s.Seconds)},
		{"lost", fmt.Sprint(s.Lost), "must be 0"},
		{"billed twice", fmt.Sprint(s.Twice), "must be 0"},
		{"stale writes", fmt.Sprint(s.Stale)},
		{"log written an item", fmt.Sprintf("%.0f B", s.Expense.WALBytes)},
		{"HOT updates", fmt.Sprintf("%.2f", s.Expense.HOT)},
		{"CPU of Postgres", fmt.Sprintf("%.2f cores", s.Expense.PostgresCPU/s.Seconds)},
		{"memory of the relay", mebibytes(s.Expense.MaxRSS) + " at most"},
	}
}

// Rows is the report as a table.
func (m *Memory) Rows() [][]string {
	return [][]string{
		{"memory of the relay", "", fmt.Sprintf("%d items waiting, provider down", m.Items)},
		{"before the first", mebibytes(m.Empty)},
		{"at most, seeing them come", mebibytes(m.Live)},
		{"at most, started on them", mebibytes(m.Restarted), goal("≤", float64(m.Goal>>20), m.Met) + " (MiB)"},
	}
}
