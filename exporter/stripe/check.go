package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Severity says how bad a Finding is.
type Severity string

// The severities.
const (
	Broken  Severity = "error"   // items fail, or are billed wrongly
	Suspect Severity = "warning" // right for some, and worth a look
)

// Finding is one thing that Check noticed.
type Finding struct {
	Severity Severity
	Code     string // credentials_refused, account_mismatch, meter_inactive, …
	Meter    string // event_name; "" where the finding is about the account
	Detail   string // what is so
	Hint     string // what to do
}

func (f Finding) String() string {
	subject := ""
	if f.Meter != "" {
		subject = fmt.Sprintf(" meter %q:", f.Meter)
	}
	return fmt.Sprintf("%s: %s:%s %s: %s", f.Severity, f.Code, subject, f.Detail, f.Hint)
}

// credentialsRefused is the Finding of a key that may not ask.
const credentialsRefused = "credentials_refused"

// Check asks Stripe what can be known before the first item: whether it takes the key, whose key it is, and
// how the meters are set. It writes nothing. The error says that Stripe couldn't be asked; a refused key is
// a Finding.
func (e *Exporter) Check(ctx context.Context) ([]Finding, error) {
	_, findings, err := e.inspect(ctx)
	return findings, err
}

// inspect answers the meters too; nil where the key may not read them.
func (e *Exporter) inspect(ctx context.Context) ([]Meter, []Finding, error) {
	meters, err := e.Meters(ctx)
	var refused *RefusedError
	if errors.As(err, &refused) && refused.credentials() {
		return nil, []Finding{{
			Broken, credentialsRefused, "", fmt.Sprintf("Stripe answers HTTP %d: %s", refused.Status, refused.Detail),
			"use a key of this account that may read billing meters and write billing meter events",
		}}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("check: %w", err)
	}
	findings, err := e.checkAccount(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("check: %w", err)
	}
	findings = append(findings, e.checkMeters(meters)...)
	if e.cfg.Stream {
		findings = append(findings, e.checkStream(ctx)...)
	}
	return meters, findings, nil
}

// checkStream asks for a session, which is all that can be known of the stream without sending.
func (e *Exporter) checkStream(ctx context.Context) []Finding {
	_, _, a := e.openSession(ctx)
	if a.refusal == nil {
		return nil // taken, or not Stripe's word
	}
	return []Finding{{
		Broken, "stream_refused", "", "Stripe gives no session of the meter event stream: " + a.detail(),
		"switch the stream off, or use a key and a mode that may use it",
	}}
}

// checkAccount compares the account with the key's own. A platform's key reaches Account or is refused.
func (e *Exporter) checkAccount(ctx context.Context) ([]Finding, error) {
	if e.cfg.Connect || e.cfg.Account == "" {
		return nil, nil
	}
	own, err := e.account(ctx)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return []Finding{{
			Suspect, "account_unknown", "",
			fmt.Sprintf("Stripe doesn't say whose key this is (HTTP %d), so it may not be that of %s", refused.Status, e.cfg.Account),
			"give the key read access to the account, or compare by hand",
		}}, nil
	case err != nil:
		return nil, err
	case own != e.cfg.Account:
		return []Finding{{
			Broken, "account_mismatch", "", fmt.Sprintf("the key belongs to %s, and %s is configured", own, e.cfg.Account),
			"use the key of the configured account, or set connect if it is connected to the key's",
		}}, nil
	}
	return nil, nil
}

// checkMeters looks at every active meter, and at the configured ones that aren't. An event name may have
// old, inactive meters besides its active one.
func (e *Exporter) checkMeters(meters []Meter) []Finding {
	if len(meters) == 0 {
		return []Finding{{
			Broken, "no_meters", "", "the account has no meters in mode " + string(e.mode),
			"create one in the dashboard, or use a key of the account that has them",
		}}
	}
	var findings []Finding
	active, known := map[string]bool{}, map[string]bool{}
	for _, m := range meters {
		known[m.Event] = true
		if m.Active {
			active[m.Event] = true
			findings = append(findings, e.checkMeter(m)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.cfg.used())) {
		switch {
		case active[name]:
		case known[name]:
			findings = append(findings, Finding{
				Broken, "meter_inactive", name, "it is deactivated and takes no events", "reactivate it",
			})
		default:
			findings = append(findings, Finding{
				Broken, "meter_unknown", name, "the account has no meter with this event_name", "create it, or correct the name",
			})
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Meter, b.Meter) })
	return findings
}

// checkMeter looks at an active meter.
func (e *Exporter) checkMeter(m Meter) []Finding {
	var findings []Finding
	add := func(s Severity, code, detail, hint string) {
		findings = append(findings, Finding{s, code, m.Event, detail, hint})
	}
	keys, configured := e.cfg.used()[m.Event]
	severity := Suspect // nobody says that this one is used
	if configured {
		severity = Broken
	}
	if m.Live != (e.mode == Live) {
		add(Broken, "livemode_mismatch", fmt.Sprintf("it has livemode %t, and the key is for mode %s", m.Live, e.mode),
			"check the URL: something other than Stripe seems to answer")
	}
	if has, sent := m.keys(), keys.withDefaults(); has != sent {
		add(severity, "meter_keys", fmt.Sprintf("it reads customer and value from %q and %q, events are sent with %q and %q",
			has.CustomerKey, has.ValueKey, sent.CustomerKey, sent.ValueKey), "configure the meter's own payload keys")
	}
	if m.Window != "" {
		add(severity, "meter_preaggregated", fmt.Sprintf("of all events in one %s it counts only the latest", m.Window),
			"use a meter without event_time_window: items add up, they don't replace each other")
	}
	if m.Formula == "last" {
		add(Suspect, "meter_last", "it counts only the latest value, and events may arrive out of order after a retry",
			"have the lane keep the order of each key, or use a meter that sums")
	}
	return findings
}
