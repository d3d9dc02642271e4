package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Distribution sums up latencies, in milliseconds.
type Distribution struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P10   float64 `json:"p10_ms"` // of those that nothing else on the machine disturbed
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// histogram takes latencies from a microsecond to ten minutes, to three digits.
type histogram struct{ h *hdrhistogram.Histogram }

func newHistogram() histogram {
	return histogram{hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)}
}

// add takes in d. What is out of the range counts as its end.
func (h histogram) add(d time.Duration) {
	us := min(max(d.Microseconds(), 1), h.h.HighestTrackableValue())
	h.h.RecordValue(us) //nolint:errcheck // it is in the range
}

func (h histogram) summary() Distribution {
	at := func(q float64) float64 { return float64(h.h.ValueAtQuantile(q)) / 1000 }
	return Distribution{
		Count: h.h.TotalCount(),
		Mean:  h.h.Mean() / 1000,
		P10:   at(10),
		P50:   at(50),
		P90:   at(90),
		P99:   at(99),
		P999:  at(99.9),
		Max:   float64(h.h.Max()) / 1000,
	}
}
