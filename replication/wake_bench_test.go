package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/internal/pgtest"
)

// waking is a handler that says when a change came.
type waking struct {
	counting
	at chan time.Time
}

func (w *waking) Change(*Change) { w.at <- time.Now() }

// BenchmarkWake is the doorbell's own delay: from the COMMIT that a producer sends to the handler's Change.
// The producer's answer takes part of the same time; "commit" is that part.
func BenchmarkWake(b *testing.B) {
	db := pgtest.Migrated(b)
	handler := &waking{at: make(chan time.Time, 1)}
	s := New(Config{URL: db.URL(), Slot: db.Name()}, handler, &memory{url: db.URL()})
	go func() { _ = s.Run(b.Context()) }()
	pgtest.Eventually(b, patience, func() bool { return s.Status().Mode == Streaming })
	conn, err := pgx.Connect(b.Context(), db.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	var wakes, commits []time.Duration
	for i := 0; b.Loop(); i++ {
		if _, err := conn.Exec(b.Context(), "BEGIN"); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Exec(b.Context(), insertSQL, "stripe", fmt.Sprint(i), 1); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if _, err := conn.Exec(b.Context(), "COMMIT"); err != nil {
			b.Fatal(err)
		}
		commits = append(commits, time.Since(began))
		wakes = append(wakes, (<-handler.at).Sub(began))
	}
	report := func(name string, all []time.Duration) {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), name+"-p99-µs")
	}
	report("wake", wakes)
	report("commit", commits)
}
