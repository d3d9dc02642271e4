// Package null is an exporter that accepts everything and sends nothing. It shows what the relay itself
// costs, for measurements.
package null

import (
	"context"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// Exporter accepts everything at once.
type Exporter struct{}

// Deliver accepts items.
func (Exporter) Deliver(_ context.Context, items []machine.Item) []exporter.Outcome {
	outcomes := make([]exporter.Outcome, len(items))
	for i := range outcomes {
		outcomes[i] = exporter.Outcome{Kind: exporter.Accepted}
	}
	return outcomes
}

// Limits lets a whole claim through in one call.
func (Exporter) Limits() exporter.Limits {
	return exporter.Limits{Calls: 4, Batch: 1000, Timeout: 10 * time.Second}
}
