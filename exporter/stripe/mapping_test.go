package stripe

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// mapped is a configuration with features of every kind.
func mapped(c *Config) {
	c.Mapping = Mapping{Version: "3", Accepts: []string{"2"}, Features: map[string]Feature{
		"chat":     {Meter: "tokens", CustomerKey: "who", ValueKey: "n", Dimensions: []string{"model"}},
		"storage":  {Meter: "gb_hours", Format: Decimal, Since: time.Now().Add(-24 * time.Hour)},
		"legacy":   {Meter: "old", Buffered: true},
		"eu":       {Meter: "eu_tokens", Account: "acct_eu"},
		"live":     {Meter: "live_tokens", Mode: Live},
		"test_too": {Meter: "any_tokens", Mode: Test},
	}}
}

// payloadOf makes a payload out of a good one, without meter, and changes; nil removes.
func payloadOf(changes map[string]any) json.RawMessage {
	p := map[string]any{"customer": "cus_1", "value": "25", "timestamp": time.Now().Unix()}
	maps.Copy(p, changes)
	maps.DeleteFunc(p, func(_ string, v any) bool { return v == nil })
	text, _ := json.Marshal(p)
	return text
}

// Every reason for which an item is held before it is sent (T6), and that nothing is sent.
func TestQuarantineReasons(t *testing.T) {
	server := newServer(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s: nothing may be sent", r.Method, r.URL) })
	account := func(c *Config) { mapped(c); c.Account = "acct_1" }
	euAccount := func(c *Config) { mapped(c); c.Account = "acct_eu" }
	connect := func(c *Config) { account(c); c.Connect = true }
	of := func(feature string, changes map[string]any) json.RawMessage {
		all := map[string]any{"feature": feature}
		maps.Copy(all, changes)
		return payloadOf(all)
	}
	direct := func(changes map[string]any) json.RawMessage {
		all := map[string]any{"meter": "tokens"}
		maps.Copy(all, changes)
		return payloadOf(all)
	}
	tests := []struct {
		code    string
		name    string
		config  func(*Config)
		payload json.RawMessage
		item    func(*machine.Item)
	}{
		{"feature_unmapped", "unknown feature", mapped, of("video", nil), nil},
		{"feature_unmapped", "no mapping at all", nil, of("chat", nil), nil},
		{"feature_invalid", "feature is a number", mapped, payloadOf(map[string]any{"feature": 7}), nil},
		{"no_meter", "neither feature nor meter", mapped, payloadOf(nil), nil},
		{"mapping_changed", "staged under an unknown version", mapped, of("chat", nil), func(i *machine.Item) { i.MappingVersion = "1" }},
		{"mapping_changed", "staged under a later version", mapped, of("chat", nil), func(i *machine.Item) { i.MappingVersion = "4" }},
		{"feature_buffered", "reported by somebody else", mapped, of("legacy", nil), nil},
		{"no_customer", "feature", mapped, of("chat", map[string]any{"customer": nil}), nil},
		{"no_customer", "meter", nil, direct(map[string]any{"customer": ""}), nil},
		{"no_account", "feature demands one", mapped, of("eu", nil), nil},
		{"no_account", "lane has none", nil, direct(nil), func(i *machine.Item) { i.Account = "acct_1" }},
		{"no_account", "connect demands one", connect, direct(nil), nil},
		{"no_account", "feature demands one, lane has it", euAccount, of("eu", nil), nil},
		{"account_mismatch", "other account", account, direct(nil), func(i *machine.Item) { i.Account = "acct_2" }},
		{"account_mismatch", "feature of another account", account, of("eu", nil), func(i *machine.Item) { i.Account = "acct_1" }},
		{"mode_mismatch", "item", nil, direct(nil), func(i *machine.Item) { i.Mode = "live" }},
		{"mode_mismatch", "feature", mapped, of("live", nil), nil},
		{"period_buffered", "by timestamp", mapped, of("storage", map[string]any{"timestamp": time.Now().Add(-25 * time.Hour).Unix()}), nil},
		{"period_buffered", "by period", mapped, of("storage", map[string]any{"period_start": time.Now().Add(-25 * time.Hour).Format(time.RFC3339)}), nil},
		{"period_start_invalid", "period can't be read", mapped, of("storage", map[string]any{"period_start": "yesterday"}), nil},
		{"timestamp_window", "old", mapped, of("chat", map[string]any{"timestamp": time.Now().Add(-36 * 24 * time.Hour).Unix()}), nil},
		{"timestamp_window", "far ahead", mapped, of("chat", map[string]any{"timestamp": time.Now().Add(26 * time.Hour).Unix()}), nil},
		{"attribution_unresolved", "feature", mapped, of("chat", map[string]any{"attribution": "unresolved", "customer": nil}), nil},
		{"attribution_unresolved", "meter", nil, direct(map[string]any{"attribution": "unresolved"}), nil},
		{"original_ineligible", "said to be quarantined", nil, direct(map[string]any{"original": "x", "original_state": "quarantined"}), nil},
		{"original_ineligible", "said in a word of the producer's own", nil, direct(map[string]any{"original_state": "buffered"}), nil},
		{"original_ineligible", "said in no word", nil, direct(map[string]any{"original_state": true}), nil},
		{"original_invalid", "no identifier", nil, direct(map[string]any{"original": 7}), nil},
		{"invalid_value", "a fraction of whole numbers", mapped, of("chat", map[string]any{"value": "1.5"}), nil},
		{"dimensions_invalid", "a dimension of no feature", mapped, of("chat", map[string]any{"dimensions": map[string]string{"region": "eu"}}), nil},
		{"payload_invalid", "cancel of usage", nil, direct(map[string]any{"cancel": "evt"}), nil},
	}
	for _, tt := range tests {
		t.Run(tt.code+"/"+tt.name, func(t *testing.T) {
			item := newItem(tt.name)
			item.MappingVersion, item.Payload = "3", tt.payload
			if tt.item != nil {
				tt.item(&item)
			}
			o := deliverOne(t, newExporter(t, server.URL, tt.config), item)
			if o.Kind != exporter.Quarantined || o.Code != tt.code || o.Signal != exporter.Unasked || o.Detail == "" {
				t.Errorf("outcome %+v, want quarantined %s, unasked, with a detail", o, tt.code)
			}
		})
	}
}

// What the mapping lets through, and what is sent then.
func TestMapping(t *testing.T) {
	tests := []struct {
		name    string
		version string
		payload json.RawMessage
		want    string // the meter and Stripe's payload
	}{
		{"feature", "3", payloadOf(map[string]any{"feature": "chat", "dimensions": map[string]string{"model": "l"}}), "tokens map[model:l n:25 who:cus_1]"},
		{"accepted version", "2", payloadOf(map[string]any{"feature": "chat"}), "tokens map[n:25 who:cus_1]"},
		{"decimals", "3", payloadOf(map[string]any{"feature": "storage", "value": 1.5}), "gb_hours map[stripe_customer_id:cus_1 value:1.5]"},
		{"whole numbers however spelt", "3", payloadOf(map[string]any{"feature": "chat", "value": "2.50e1"}), "tokens map[n:25 who:cus_1]"},
		{"the right mode", "3", payloadOf(map[string]any{"feature": "test_too"}), "any_tokens map[stripe_customer_id:cus_1 value:25]"},
		{"meter wins over feature", "1", payloadOf(map[string]any{"feature": "legacy", "meter": "m", "value": 1.5}), "m map[stripe_customer_id:cus_1 value:1.5]"},
		{"other words of attribution", "3", payloadOf(map[string]any{"feature": "chat", "attribution": "resolved"}), "tokens map[n:25 who:cus_1]"},
		{"billed original of somebody else", "3", payloadOf(map[string]any{"feature": "chat", "value": -1, "original": "x", "original_state": "billed"}), "tokens map[n:-1 who:cus_1]"},
		{"the period's start counts, not the usage", "3", payloadOf(map[string]any{"feature": "storage", "timestamp": time.Now().Add(-25 * time.Hour).Unix(),
			"period_start": time.Now().Add(-23 * time.Hour).Unix()}), "gb_hours map[stripe_customer_id:cus_1 value:25]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			item := newItem(tt.name)
			item.MappingVersion, item.Payload = tt.version, tt.payload
			ev, held := newExporter(t, "", mapped).admit(t.Context(), &item)
			if held != nil {
				t.Fatalf("held: %+v", *held)
			}
			if got := fmt.Sprint(ev.meter, " ", ev.payload()); got != tt.want {
				t.Errorf("sent as %s, want %s", got, tt.want)
			}
		})
	}
}

// Items that share customer and meter don't go out together, however the payload names the meter.
func TestKeyOfMapped(t *testing.T) {
	e := newExporter(t, "", mapped)
	byFeature, byMeter := newItem("a"), newItem("b")
	byFeature.MappingVersion, byFeature.Payload = "3", payloadOf(map[string]any{"feature": "chat"})
	if e.Key(&byFeature) == "" || e.Key(&byFeature) != e.Key(&byMeter) {
		t.Errorf("keys %q and %q, want the same", e.Key(&byFeature), e.Key(&byMeter))
	}
}

func TestValidateMapping(t *testing.T) {
	with := func(f Feature) func(*Config) {
		return func(c *Config) { c.Mapping = Mapping{Version: "1", Features: map[string]Feature{"f": f}} }
	}
	tests := []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"good", mapped, ""},
		{"keys agree with Meters", func(c *Config) {
			with(Feature{Meter: "m"})(c)
			c.Meters = map[string]MeterConfig{"m": {ValueKey: "n"}}
		}, ""},
		{"no version", func(c *Config) { mapped(c); c.Mapping.Version = "" }, "need a version"},
		{"no meter", with(Feature{}), `meter ""`},
		{"format", with(Feature{Meter: "m", Format: "hex"}), `format "hex"`},
		{"mode", with(Feature{Meter: "m", Mode: "prod"}), `mode "prod"`},
		{"account", with(Feature{Meter: "m", Account: "cus_1"}), `account "cus_1"`},
		{"one key for both", with(Feature{Meter: "m", CustomerKey: "value"}), "share the payload key"},
		{"brackets", with(Feature{Meter: "m", CustomerKey: "a[b]"}), "payload keys"},
		{"dimension for the value", with(Feature{Meter: "m", Dimensions: []string{"value"}}), `dimension "value"`},
		{"keys contradict Meters", func(c *Config) {
			with(Feature{Meter: "m", ValueKey: "x"})(c)
			c.Meters = map[string]MeterConfig{"m": {ValueKey: "n"}}
		}, "other payload keys"},
		{"keys contradict each other", func(c *Config) {
			c.Mapping = Mapping{Version: "1", Features: map[string]Feature{"a": {Meter: "m", ValueKey: "x"}, "b": {Meter: "m"}}}
		}, "other payload keys"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Key: "sk_test_a"}
			tt.change(&cfg)
			if err := cfg.Validate(); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
