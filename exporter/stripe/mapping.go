package stripe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Mapping turns features, the producer's words, into meters, Stripe's. It is applied when an item is claimed, to
// payloads that name a feature and no meter; those that name a meter need none.
type Mapping struct {
	// Version names these rules. An item that names a feature must have been staged under it (mapping_version), or
	// it is quarantined as mapping_changed: the rules under which its producer wrote it are not these. Required
	// with Features.
	Version string
	// Accepts are earlier versions whose items these rules may send as well.
	Accepts []string
	// Features are the rules, by feature.
	Features map[string]Feature
}

// Feature says how the usage of a feature is reported.
type Feature struct {
	// Meter is the event_name of its meter. Required.
	Meter string
	// CustomerKey and ValueKey are the meter's payload keys. Default to those in Config.Meters, else to Stripe's.
	CustomerKey string
	ValueKey    string
	// Format says which values it has. Defaults to Integer.
	Format Format
	// Dimensions are the further payload keys that its items may have. Items with others are quarantined: a
	// dimension decides about the price.
	Dimensions []string
	// Account is the account that its items must name; "" demands none.
	Account string
	// Mode is the only mode in which it is reported; "" is both.
	Mode Mode
	// Since is the cutover: what belongs to a period that began earlier is the former reporter's. Zero: none.
	Since time.Time
	// Buffered says that somebody else reports it still: none of its items is sent.
	Buffered bool
}

// Format is which values a feature has.
type Format string

// The formats.
const (
	Integer Format = "integer" // whole numbers, as most meters count
	Decimal Format = "decimal" // up to 12 decimals
)

func (f Feature) keys(meters map[string]MeterConfig) MeterConfig {
	known := meters[f.Meter]
	return MeterConfig{
		CustomerKey: cmp.Or(f.CustomerKey, known.CustomerKey),
		ValueKey:    cmp.Or(f.ValueKey, known.ValueKey),
	}.withDefaults()
}

// validate reports everything that is wrong with the mapping, joined.
func (m Mapping) validate(meters map[string]MeterConfig) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("stripe: mapping: "+format, args...)) }
	if len(m.Features) > 0 && m.Version == "" {
		bad("features need a version: items are checked against it")
	}
	seen := map[string]MeterConfig{}
	for _, name := range slices.Sorted(maps.Keys(m.Features)) {
		f := m.Features[name]
		keys := f.keys(meters)
		first, known := seen[f.Meter]
		switch {
		case !short(name):
			bad("feature %q: need a name of 1 to %d printable characters", name, maxText)
		case !short(f.Meter):
			bad("feature %q: meter %q: need an event_name of 1 to %d characters", name, f.Meter, maxText)
		case !payloadKey(keys.CustomerKey) || !payloadKey(keys.ValueKey):
			bad("feature %q: payload keys %q and %q: need 1 to %d letters, digits, _, - or .",
				name, keys.CustomerKey, keys.ValueKey, maxText)
		case keys.CustomerKey == keys.ValueKey:
			bad("feature %q: customer and value share the payload key %q: name the two that the meter has", name, keys.ValueKey)
		case known && first != keys || meters[f.Meter] != (MeterConfig{}) && meters[f.Meter].withDefaults() != keys:
			bad("feature %q: meter %q is given other payload keys elsewhere: a meter has one pair", name, f.Meter)
		case f.Format != "" && f.Format != Integer && f.Format != Decimal:
			bad("feature %q: format %q: need %s or %s", name, f.Format, Integer, Decimal)
		case f.Mode != "" && f.Mode != Live && f.Mode != Test:
			bad("feature %q: mode %q: need %s or %s, or none for both", name, f.Mode, Live, Test)
		case f.Account != "" && !isAccount(f.Account):
			bad("feature %q: account %q: need an account id, as in acct_1AbC", name, f.Account)
		}
		for _, d := range f.Dimensions {
			if !payloadKey(d) || d == keys.CustomerKey || d == keys.ValueKey {
				bad("feature %q: dimension %q: need a payload key besides those of customer and value", name, d)
			}
		}
		seen[f.Meter] = keys
	}
	return errors.Join(errs...)
}

func isAccount(s string) bool { return strings.HasPrefix(s, "acct_") && plain(s) }

// route is how an item's usage gets to its meter.
type route struct {
	meter   string
	keys    MeterConfig
	feature *Feature // nil where the payload names the meter itself
}

// route finds the meter of a payload that was staged under the mapping version.
func (c *Config) route(f fields, version string) (route, *problem) {
	if f.get("meter") != nil || f.get("feature") == nil {
		meter, p := f.text("meter")
		return route{meter: meter, keys: c.Meters[meter].withDefaults()}, p
	}
	name, p := f.text("feature")
	if p != nil {
		return route{}, p
	}
	m := &c.Mapping
	feature, ok := m.Features[name]
	switch {
	case !ok:
		return route{}, problemf("feature_unmapped",
			"the mapping has no feature %q, and the payload names no meter: map it, then requeue", name)
	case version != m.Version && !slices.Contains(m.Accepts, version):
		return route{}, problemf("mapping_changed",
			"the item was staged under mapping version %q, the lane has %q: if that may send it, list it in accepts, then requeue", version, m.Version)
	case feature.Buffered:
		return route{}, problemf("feature_buffered", "the feature %q is buffered: another reporter sends its usage", name)
	}
	return route{feature.Meter, feature.keys(c.Meters), &feature}, nil
}
