package stripe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
)

func TestKeyMode(t *testing.T) {
	for key, want := range map[Key]Mode{
		"sk_live_a": Live, "rk_live_a1B": Live, "sk_test_a": Test, "rk_test_a_b": Test,
		"": "", "sk_live_": "", "pk_live_a": "", "whsec_a": "", "a": "", "sk_test_a\n": "", "sk_test_a b": "", " sk_test_a": "", "sk_org_live_a": "",
	} {
		if got, err := key.Mode(); got != want || (err == nil) != (want != "") {
			t.Errorf("mode of %q is %q (%v), want %q", string(key), got, err, want)
		}
		if _, err := key.Mode(); err != nil && len(key) > len("sk_live_") && strings.Contains(err.Error(), string(key)) {
			t.Errorf("error %q shows the key", err)
		}
	}
}

func TestKeyIsNeverPrinted(t *testing.T) {
	const secret = "topsecret"
	cfg := Config{Key: "sk_live_" + secret}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		fmt.Fprintf(&out, verb+verb, cfg, cfg.Key)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("", "key", cfg.Key, "keys", []Key{cfg.Key})
	slog.New(slog.NewTextHandler(&out, nil)).Info("", "key", cfg.Key, "keys", []Key{cfg.Key})
	json.NewEncoder(&out).Encode(map[string]any{"key": cfg.Key}) //nolint:errcheck // into memory
	for _, shown := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret)} {
		if strings.Contains(out.String(), shown) {
			t.Errorf("%q shows in %s", shown, out.String())
		}
	}
	if got := cfg.Key.String(); got != "sk_live_[redacted]" {
		t.Errorf("key prints as %q", got)
	}
}

func TestValidate(t *testing.T) {
	meter := func(name string, m MeterConfig) func(*Config) {
		return func(c *Config) { c.Meters = map[string]MeterConfig{name: m} }
	}
	tests := []struct {
		name   string
		change func(*Config)
		want   string // part of the error, "" for none
	}{
		{"least", func(*Config) {}, ""},
		{"no bound", func(c *Config) { c.Rate = -1 }, ""},
		{"connect", func(c *Config) { c.Account, c.Connect = "acct_1", true }, ""},
		{"stand-in", func(c *Config) { c.URL = "http://stripe:12111/" }, ""},
		{"stand-in on this machine, live", func(c *Config) { c.Key, c.URL = "sk_live_a", "http://127.0.0.1:12111" }, ""},
		{"meter", meter("tokens", MeterConfig{CustomerKey: "who"}), ""},
		{"no key", func(c *Config) { c.Key = "" }, "key is empty"},
		{"account", func(c *Config) { c.Account = "cus_1" }, `account "cus_1"`},
		{"connect without account", func(c *Config) { c.Connect = true }, "connect needs account"},
		{"no scheme", func(c *Config) { c.URL = "api.stripe.com" }, "url"},
		{"path", func(c *Config) { c.URL = "https://api.stripe.com/v1" }, "scheme and host only"},
		{"user", func(c *Config) { c.URL = "https://u:secret@api.stripe.com" }, "scheme and host only"},
		{"live key in the clear", func(c *Config) { c.Key, c.URL = "sk_live_a", "http://stripe:12111" }, "unencrypted"},
		{"calls", func(c *Config) { c.Calls = -1 }, "calls -1"},
		{"rate", func(c *Config) { c.Rate = -2 }, "rate -2"},
		{"rate NaN", func(c *Config) { c.Rate = math.NaN() }, "rate NaN"},
		{"timeout", func(c *Config) { c.Timeout = -time.Second }, "timeout -1s"},
		{"rate limit delay", func(c *Config) { c.RateLimitDelay = -1 }, "rate limit delay"},
		{"meter without a name", meter("", MeterConfig{}), "event_name"},
		{"brackets", meter("m", MeterConfig{ValueKey: "a[b]"}), "payload keys"},
		{"one key for both", meter("m", MeterConfig{CustomerKey: "value"}), "share the payload key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Key: "sk_test_a"}
			tt.change(&cfg)
			_, err := New(cfg)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret@") {
				t.Errorf("error %v shows a password", err)
			}
		})
	}
}

func TestRateFollowsTheMode(t *testing.T) {
	for _, tt := range []struct {
		key     Key
		connect bool
		below   float64
	}{{"sk_live_a", false, 1000}, {"sk_live_a", true, 100}, {"sk_test_a", false, 25}, {"sk_test_a", true, 25}} {
		cfg := Config{Key: tt.key, Connect: tt.connect}.withDefaults()
		if cfg.Rate >= tt.below || cfg.Rate < 0.85*tt.below {
			t.Errorf("%v, connect %t: rate %v, want somewhat below Stripe's %v", tt.key, tt.connect, cfg.Rate, tt.below)
		}
	}
}
