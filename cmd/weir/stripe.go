package main

import (
	"fmt"

	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/internal/config"
)

// stripeExporter makes the exporter of a lane.
func (a *app) stripeExporter(name string, lane *config.Lane) (*stripe.Exporter, error) {
	key, err := lane.ReadKey()
	if err != nil {
		return nil, fmt.Errorf("lane %s: %w", name, err)
	}
	s := &lane.Stripe
	meters := make(map[string]stripe.MeterConfig, len(s.Meters))
	for event, m := range s.Meters {
		meters[event] = stripe.MeterConfig{CustomerKey: m.CustomerKey, ValueKey: m.ValueKey}
	}
	made, err := stripe.New(stripe.Config{
		Key:            stripe.Key(key.Reveal()),
		Account:        s.Account,
		Connect:        s.Connect,
		URL:            s.URL,
		Calls:          s.Calls,
		Rate:           s.Rate,
		Timeout:        s.Timeout,
		RateLimitDelay: s.RateLimitDelay,
		Meters:         meters,
		Logger:         a.logger(a.loaded).With("lane", name),
	})
	if err != nil {
		return nil, fmt.Errorf("lane %s: %w", name, err)
	}
	return made, nil
}
