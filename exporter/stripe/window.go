package stripe

import (
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

const (
	// past and ahead are the times that Stripe takes usage of. ahead leaves a minute of Stripe's five to
	// clocks that differ.
	past  = 35 * 24 * time.Hour
	ahead = 4 * time.Minute
	// patience is how far in the future usage may lie and still be waited for.
	patience = 24 * time.Hour
)

// window says what to do with usage of the time t that Stripe wouldn't take now. It answers nil if Stripe would.
func window(t, now time.Time) *exporter.Outcome {
	switch early := t.Sub(now) - ahead; {
	case t.Before(now.Add(-past)):
		return hold(problemf("timestamp_window", "the usage of %s is more than 35 days old: Stripe doesn't take it any more",
			t.UTC().Format(time.RFC3339)))
	case early > patience:
		return hold(problemf("timestamp_window", "the usage of %s lies in the future", t.UTC().Format(time.RFC3339)))
	case early > 0:
		return &exporter.Outcome{
			Kind: exporter.Retry, Cost: machine.Unsent, Code: "timestamp_ahead", After: early + time.Second,
			Detail: "the usage of " + t.UTC().Format(time.RFC3339) + " lies in the future: it is sent when its time comes",
		}
	}
	return nil
}

// hold quarantines.
func hold(p *problem) *exporter.Outcome {
	return &exporter.Outcome{Kind: exporter.Quarantined, Code: p.code, Detail: clean(p.detail)}
}
