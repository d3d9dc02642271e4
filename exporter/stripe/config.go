package stripe

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
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

// Validate reports everything that is wrong with the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("stripe: "+format, args...)) }

	mode, err := c.Key.Mode()
	if err != nil {
		errs = append(errs, err)
	}
	if c.Account != "" && !isAccount(c.Account) {
		bad("account %q: need an account id, as in acct_1AbC", c.Account)
	}
	if c.Connect && c.Account == "" {
		bad("connect needs account: name the connected account, as in acct_1AbC")
	}
	for _, u := range []string{c.URL, c.StreamURL} {
		if err := checkURL(u, mode); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Calls < 0 {
		bad("calls %d: need at least 1, or 0 for the default", c.Calls)
	}
	if !(c.Rate >= 0 || c.Rate == -1) {
		bad("rate %v: need calls a second above zero, 0 for the default, or -1 for no bound", c.Rate)
	}
	if c.Timeout < 0 {
		bad("timeout %v: need more than zero, or 0 for the default", c.Timeout)
	}
	if c.RateLimitDelay < 0 {
		bad("rate limit delay %v: need more than zero, or 0 for the default", c.RateLimitDelay)
	}
	for name, m := range c.Meters {
		m = m.withDefaults()
		switch {
		case !short(name):
			bad("meter %q: need an event_name of 1 to %d characters", name, maxText)
		case !payloadKey(m.CustomerKey) || !payloadKey(m.ValueKey):
			bad("meter %q: payload keys %q and %q: need 1 to %d letters, digits, _, - or .",
				name, m.CustomerKey, m.ValueKey, maxText)
		case m.CustomerKey == m.ValueKey:
			bad("meter %q: customer and value share the payload key %q: name the two that the meter has", name, m.ValueKey)
		}
	}
	if err := c.Mapping.validate(c.Meters); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkURL refuses what can't be the API, and what would show a live key to the network.
func checkURL(raw string, mode Mode) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("stripe: url: need http:// or https:// and a host, as in https://api.stripe.com")
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("stripe: url %q: need scheme and host only, as in https://api.stripe.com", u.Redacted())
	}
	if u.Scheme == "http" && mode == Live && !loopback(u.Hostname()) {
		return fmt.Errorf("stripe: url %q would send a live key unencrypted: use https", u.Redacted())
	}
	return nil
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
