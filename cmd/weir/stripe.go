package main

import (
	"fmt"

	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/internal/config"
)

// stripeExporter makes the exporter of a lane. It can be asked about its account; what it is to send with is
// stripeLanes' business.
func (a *app) stripeExporter(name string, lane *config.Lane) (*stripe.Exporter, error) {
	c, err := a.stripeConfig(name, lane)
	if err != nil {
		return nil, err
	}
	made, err := stripe.New(c)
	if err != nil {
		return nil, usageError{fmt.Errorf("lane %s: %w", name, err)}
	}
	return made, nil
}

// stripeConfig is a lane's settings as package stripe takes them.
func (a *app) stripeConfig(name string, lane *config.Lane) (stripe.Config, error) {
	key, err := lane.ReadKey()
	if err != nil {
		return stripe.Config{}, usageError{fmt.Errorf("lane %s: %w", name, err)}
	}
	s := &lane.Stripe
	meters := make(map[string]stripe.MeterConfig, len(s.Meters))
	for event, m := range s.Meters {
		meters[event] = stripe.MeterConfig{CustomerKey: m.CustomerKey, ValueKey: m.ValueKey}
	}
	return stripe.Config{
		Key:            stripe.Key(key.Reveal()),
		Account:        s.Account,
		Connect:        s.Connect,
		URL:            s.URL,
		Stream:         s.Stream,
		StreamURL:      s.StreamAddress,
		Calls:          s.Calls,
		Rate:           s.Rate,
		Timeout:        s.Timeout,
		RateLimitDelay: s.RateLimitDelay,
		Meters:         meters,
		Mapping:        stripeMapping(&s.Mapping),
		Logger:         a.logger(a.loaded).With("lane", name),
	}, nil
}

func stripeMapping(m *config.Mapping) stripe.Mapping {
	features := make(map[string]stripe.Feature, len(m.Features))
	for name, f := range m.Features {
		features[name] = stripe.Feature{
			Meter:       f.Meter,
			CustomerKey: f.CustomerKey,
			ValueKey:    f.ValueKey,
			Format:      stripe.Format(f.Format),
			Dimensions:  f.Dimensions,
			Account:     f.Account,
			Mode:        stripe.Mode(f.Mode),
			Since:       f.Since,
			Buffered:    f.Buffered,
		}
	}
	return stripe.Mapping{Version: m.Version, Accepts: m.Accepts, Features: features}
}
