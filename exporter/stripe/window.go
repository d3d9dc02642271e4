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

// window says what to do with usage of the time t where Stripe wouldn't take it now, and nil where it would.
func window(t, now time.Time) *exporter.Outcome {
	early := t.Sub(now) - ahead
	if early <= 0 && !t.Before(now.Add(-past)) {
		return nil
	}
	usage := t.UTC().Format(time.RFC3339)
	switch {
	case t.Before(now.Add(-past)):
		return hold(problemf("timestamp_window", "the usage of %s is more than 35 days old: Stripe refuses it", usage))
	case early > patience:
		return hold(problemf("timestamp_window", "the usage of %s lies more than a day in the future", usage))
	default:
		return &exporter.Outcome{
			Kind: exporter.Retry, Signal: exporter.Unasked, Cost: machine.Unsent, After: early + time.Second,
			Code: "timestamp_ahead", Detail: "the usage of " + usage + " lies in the future: it is sent when its time comes",
		}
	}
}

// hold quarantines without asking.
func hold(p *problem) *exporter.Outcome {
	return &exporter.Outcome{Kind: exporter.Quarantined, Signal: exporter.Unasked, Code: p.code, Detail: clean(p.detail)}
}
