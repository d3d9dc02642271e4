package stripe

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/weir-relay/weir/machine"
)

// adjustment is the subject_kind of items that cancel an event.
const adjustment = "adjustment"

// read understands an item by its payload and the mapping, or says why it can't be sent. It asks nobody and looks at
// no clock.
//
// THE ORDER MATTERS to a person who reads the reason: what the producer has said itself, then where the item
// belongs, then what is in it.
func (e *Exporter) read(item *machine.Item) (*event, *problem) {
	var f fields
	if err := json.Unmarshal(item.Payload, &f); err != nil || f == nil {
		return nil, problemf("payload_invalid", "payload is not a JSON object")
	}
	if p := f.verdict(); p != nil {
		return nil, p
	}
	to, p := e.cfg.route(f, item.MappingVersion)
	if p == nil {
		p = e.address(item, to.feature)
	}
	if p != nil {
		return nil, p
	}
	if item.SubjectKind == adjustment {
		return readCancel(f, to)
	}
	if f.get("cancel") != nil {
		return nil, problemf("payload_invalid", "cancel is for items of subject_kind %s, this one is of %q", adjustment, item.SubjectKind)
	}
	return readUsage(f, to)
}

// verdict is what the producer has decided itself: that the usage is nobody's, or corrects what was never billed.
func (f fields) verdict() *problem {
	if word, _ := f.word("attribution"); word == "unresolved" {
		return problemf("attribution_unresolved", "the producer doesn't know whose usage this is")
	}
	if raw := f.get("original_state"); raw != nil {
		if word, ok := f.word("original_state"); !ok || word != originalBilled {
			return problemf("original_ineligible", "the producer says that the item it corrects is %s, not %s", clip(raw), originalBilled)
		}
	}
	return nil
}

// address refuses items that are meant for another mode or account than the key's.
func (e *Exporter) address(item *machine.Item, f *Feature) *problem {
	if f == nil {
		f = &Feature{}
	}
	own := e.cfg.Account
	switch {
	case item.Mode != string(e.mode):
		return problemf("mode_mismatch", "the item is for mode %q, the key is for %q", item.Mode, e.mode)
	case f.Mode != "" && f.Mode != e.mode:
		return problemf("mode_mismatch", "the feature is reported in mode %q only, the key is for %q", f.Mode, e.mode)
	case item.Account == "" && f.Account != "":
		return problemf("no_account", "the item names no account, and its feature demands %s", f.Account)
	case item.Account == "" && e.cfg.Connect:
		return problemf("no_account", "the item names no account, and the lane sends to connected ones: %s", own)
	case item.Account != "" && own == "":
		return problemf("no_account", "the item is for %s, and no account is configured: set it, then requeue", item.Account)
	case item.Account != "" && item.Account != own:
		return problemf("account_mismatch", "the item is for %s, this exporter sends to %s", item.Account, own)
	case f.Account != "" && f.Account != own:
		return problemf("account_mismatch", "the feature is reported to %s, this exporter sends to %s", f.Account, cmp.Or(own, "the key's own"))
	}
	return nil
}

// readUsage reads an event by the table in the package's comment.
func readUsage(f fields, to route) (*event, *problem) {
	e := event{meter: to.meter, keys: to.keys, vouched: f.vouched()}
	var p *problem
	if e.customer, p = f.text("customer"); p != nil {
		return nil, p
	}
	if e.value, p = parseValue(f.get("value")); p != nil {
		return nil, p
	}
	if e.timestamp, p = f.time("timestamp"); p != nil {
		return nil, p
	}
	if e.dimensions, p = parseDimensions(f.get("dimensions")); p != nil {
		return nil, p
	}
	if e.original, p = f.original(); p != nil {
		return nil, p
	}
	if p := e.fits(); p != nil {
		return nil, p
	}
	if to.feature != nil {
		if p := to.feature.admits(&e, f); p != nil {
			return nil, p
		}
	}
	return &e, nil
}

// admits holds an event against the feature's rules.
func (ft *Feature) admits(e *event, f fields) *problem {
	if ft.Format != Decimal && strings.Contains(e.value, ".") {
		return problemf("invalid_value", "value %s is not whole, and the feature's format is %s", e.value, Integer)
	}
	for key := range e.dimensions {
		if !slices.Contains(ft.Dimensions, key) {
			return problemf("dimensions_invalid", "dimension %q is none of the feature's: add it to the mapping, then requeue", key)
		}
	}
	if ft.Since.IsZero() {
		return nil
	}
	start := e.timestamp
	if f.get("period_start") != nil {
		var p *problem
		if start, p = f.time("period_start"); p != nil {
			return p
		}
	}
	if began := time.Unix(start, 0); began.Before(ft.Since) {
		return problemf("period_buffered", "its period began at %s, before the feature's cutover at %s: it is the former reporter's",
			began.UTC().Format(time.RFC3339), ft.Since.UTC().Format(time.RFC3339))
	}
	return nil
}
