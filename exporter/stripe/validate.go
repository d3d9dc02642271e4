package stripe

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

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
