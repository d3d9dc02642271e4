package stripe

import (
	"log/slog"
	"maps"
	"net/http"
	"time"
)

// Config says to which account, how, and how fast.
type Config struct {
	// Key is the secret or restricted API key. It needs to write meter events and to read meters. Its prefix
	// decides the mode, live or test. Required.
	Key Key
	// Account is the account, as in acct_…, that items may name as their destination. An item that names no
	// account means the key's own. Without Account, items that name one are quarantined, since nothing says
	// that the key is theirs. Required by Connect.
	Account string
	// Connect sends Account as Stripe-Account: the key is a platform's and Account is connected to it. Items
	// must then name Account.
	Connect bool
	// URL of the API, for a stand-in. Plain http only for test keys or on this machine. Defaults to Stripe's.
	URL string
	// Stream says that events go out in batches by the meter event stream (v2) instead of one by one. See Sender.
	Stream bool
	// StreamURL is where the stream is, for a stand-in. Defaults to URL where that is set, else to Stripe's.
	StreamURL string
	// Calls bounds the calls in flight. Defaults to 64, with Stream to 8.
	Calls int
	// Rate bounds the calls a second; -1 means no bound. The default stays below Stripe's limit, since others
	// may share it and two clocks never agree on a second: live 950 of 1,000, live with Connect 90 of 100, test
	// 22 of 25. With Stream, live, 96: with full batches, and the few that go at once, just below the 10,000 events
	// a second that Stripe names in one place. In another it names as many requests.
	Rate float64
	// Timeout bounds one call. Defaults to 30 seconds.
	Timeout time.Duration
	// RateLimitDelay is the least delay after an answer that asks for fewer calls and doesn't say for how
	// long. Up to a quarter is added to it. Defaults to 30 seconds.
	RateLimitDelay time.Duration
	// Meters holds the meters, by event_name, that need other payload keys than Stripe's defaults, or
	// that Check should insist on. Meters that aren't in it are sent with the defaults.
	Meters map[string]MeterConfig
	// Mapping turns features into meters, for payloads that name a feature and no meter. Defaults to none.
	Mapping Mapping
	// Originals knows the items that corrections name. Without, a correction is sent on its producer's word.
	Originals Originals
	// Transport carries the calls. Defaults to a clone of http.DefaultTransport, with its proxies, HTTP/2 and
	// TLS settings, that keeps up to Calls idle connections. A RoundTripper that isn't an *http.Transport can't
	// prove that a call was never sent, so its failures count as ambiguous.
	Transport http.RoundTripper
	// Logger gets the two things that no outcome can tell: an answer from the wrong mode, and a panic in the
	// SDK. Defaults to none.
	Logger *slog.Logger
	// OnModeMismatch is called with the identifier of an event whose answer came from the wrong mode. Defaults
	// to none.
	OnModeMismatch func(identifier string)
}

// MeterConfig names the payload keys that a meter reads.
type MeterConfig struct {
	CustomerKey string // the meter's customer_mapping.event_payload_key; defaults to stripe_customer_id
	ValueKey    string // the meter's value_settings.event_payload_key; defaults to value
}

const (
	defaultCustomerKey = "stripe_customer_id"
	defaultValueKey    = "value"
)

func (m MeterConfig) withDefaults() MeterConfig {
	if m.CustomerKey == "" {
		m.CustomerKey = defaultCustomerKey
	}
	if m.ValueKey == "" {
		m.ValueKey = defaultValueKey
	}
	return m
}

func (c Config) withDefaults() Config {
	if c.Calls == 0 {
		c.Calls = 64
		if c.Stream {
			c.Calls = 8
		}
	}
	if c.StreamURL == "" {
		c.StreamURL = c.URL
	}
	if c.Rate == 0 {
		mode, _ := c.Key.Mode()
		switch {
		case mode != Live:
			c.Rate = 22
		case c.Connect:
			c.Rate = 90
		case c.Stream:
			c.Rate = 96
		default:
			c.Rate = 950
		}
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.RateLimitDelay == 0 {
		c.RateLimitDelay = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnModeMismatch == nil {
		c.OnModeMismatch = func(string) {}
	}
	meters := make(map[string]MeterConfig, len(c.Meters))
	for name, m := range c.Meters {
		meters[name] = m.withDefaults()
	}
	c.Meters = meters
	return c
}

// used are the meters that the configuration names, with the payload keys that are sent to them.
func (c *Config) used() map[string]MeterConfig {
	used := maps.Clone(c.Meters)
	for _, f := range c.Mapping.Features {
		if !f.Buffered {
			used[f.Meter] = f.keys(c.Meters)
		}
	}
	return used
}
