package outbox

import (
	"fmt"
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
)

func BenchmarkEnqueue(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("items=%d", size), func(b *testing.B) {
			db := pgtest.Migrated(b)
			ref := 0
			for b.Loop() {
				items := make([]Item, size)
				for i := range items {
					ref++
					items[i] = usage(fmt.Sprint("usage:", ref))
				}
				tx, err := db.Pool().Begin(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := Enqueue(b.Context(), tx, items...); err != nil {
					b.Fatal(err)
				}
				if err := tx.Commit(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size), "µs/item")
		})
	}
}
