package stripe

import (
	"context"
	"time"
)

// Inspect is Check, and remembers what it finds: from then on an item whose meter would lose its usage or bill it
// wrongly is quarantined before it is sent (meter_unknown, meter_inactive, meter_preaggregated, meter_keys), and an
// Exporter whose account is the wrong one sends nothing and signals exporter.Unauthorized. Where Stripe can't be
// asked, what was known stays; where the key may not ask, it is forgotten, and Stripe's own answers decide.
func (e *Exporter) Inspect(ctx context.Context) ([]Finding, error) {
	meters, findings, err := e.inspect(ctx)
	if err != nil {
		return nil, err
	}
	if meters == nil {
		e.book.enter(nil, nil, time.Time{})
		return findings, nil
	}
	e.book.enter(meters, findings, e.now())
	return findings, nil
}

const (
	inspectEvery = time.Hour   // Stripe counts reads, so seldom
	inspectAgain = time.Minute // after a failure
)

// Watch inspects every hour, and a minute after an inspection that couldn't be made, until ctx ends. report is told
// what each has found. It begins with a wait: the first inspection is its caller's, who decides what comes of it.
func (e *Exporter) Watch(ctx context.Context, report func([]Finding, error)) {
	e.book.mu.Lock()
	wait := inspectEvery
	if e.book.read.IsZero() {
		wait = inspectAgain
	}
	e.book.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		asking, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
		findings, err := e.Inspect(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		report(findings, err)
		timer.Reset(inspectEvery)
		if err != nil {
			timer.Reset(inspectAgain)
		}
	}
}
