package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Rule is an injected fault: what it hits and what then happens.
//
// Every rule that matches a request fires; delays add up, and of the others the first one wins.
type Rule struct {
	ID     int    `json:"id"`             // given by AddFault
	Name   string `json:"name,omitempty"` // for people
	Match  Match  `json:"match"`
	Action Action `json:"action"`

	Matched int `json:"matched"` // requests that Match selected before First, Every and Probability; set by Faults
	Fired   int `json:"fired"`   // requests that the action was applied to; set by Faults
}

// Match selects requests. Every field that is set must hold; the zero value selects all.
// Patterns match exactly, or by prefix when they end in an asterisk.
type Match struct {
	Method     string    `json:"method,omitempty"`
	PathPrefix string    `json:"path_prefix,omitempty"`
	Customer   string    `json:"customer,omitempty"`   // pattern; holds if any event of the request matches
	Meter      string    `json:"meter,omitempty"`      // pattern of the event name; likewise
	Identifier string    `json:"identifier,omitempty"` // pattern; likewise
	From       time.Time `json:"from,omitzero"`        // of the sandbox's clock
	Until      time.Time `json:"until,omitzero"`       // exclusive

	// Of the requests that the above select:
	Skip        int     `json:"skip,omitempty"`        // leave the first ones alone
	First       int     `json:"first,omitempty"`       // then at most this many
	Every       int     `json:"every,omitempty"`       // only every nth of them
	Probability float64 `json:"probability,omitempty"` // each with this chance; 0 means always
}

// Kind is what a fault does.
type Kind string

const (
	FaultRefuse      Kind = "refuse"       // Close the connection without an answer, before reading the body if Match doesn't need it.
	FaultReset       Kind = "reset"        // RST.
	FaultHang        Kind = "hang"         // Say nothing until the client gives up.
	FaultDelay       Kind = "delay"        // Wait for Action.Delay.
	FaultFail        Kind = "fail"         // 500 in Stripe's shape; kept under the Idempotency-Key, as Stripe does.
	FaultStatus      Kind = "status"       // Action.Status in Stripe's shape or as HTML; not kept.
	FaultRateLimit   Kind = "rate_limit"   // 429 with Retry-After and Stripe-Rate-Limited-Reason as given.
	FaultLockTimeout Kind = "lock_timeout" // 429 with the code lock_timeout.
	FaultConflict    Kind = "conflict"     // 409.
	FaultTruncate    Kind = "truncate"     // Close in the middle of the answer's body.
	FaultEmpty       Kind = "empty"        // 200 without a body.
)

// When places a fault before or after the request takes effect.
type When string

const (
	Before When = "before"
	After  When = "after"
)

// Action is what happens to a selected request.
type Action struct {
	Kind Kind `json:"kind"`
	// When defaults to Before; to After for truncate and empty. Refuse, rate_limit, lock_timeout and conflict exist
	// only before: they say that nothing was done.
	When       When          `json:"when,omitempty"`
	Status     int           `json:"status,omitempty"`      // For status. Defaults to 503.
	HTML       bool          `json:"html,omitempty"`        // For status: as an intermediary would answer.
	RetryAfter time.Duration `json:"retry_after,omitempty"` // For status and rate_limit. JSON: "2s".
	Reason     string        `json:"reason,omitempty"`      // For rate_limit: Stripe-Rate-Limited-Reason.
	Delay      time.Duration `json:"delay,omitempty"`       // For delay. JSON: "250ms".
}

func (a Action) withDefaults() Action {
	if a.When == "" {
		a.When = Before
		if a.Kind == FaultTruncate || a.Kind == FaultEmpty {
			a.When = After
		}
	}
	if a.Kind == FaultStatus && a.Status == 0 {
		a.Status = 503
	}
	return a
}

func (r Rule) validate() error {
	a := r.Action
	switch a.Kind {
	case FaultRefuse, FaultRateLimit, FaultLockTimeout, FaultConflict:
		if a.When == After {
			return &optionError{"when", string(a.When), string(Before) + " for " + string(a.Kind)}
		}
	case FaultDelay:
		if a.Delay <= 0 {
			return &optionError{"delay", a.Delay.String(), "a positive duration"}
		}
	case FaultReset, FaultHang, FaultFail, FaultStatus, FaultTruncate, FaultEmpty:
	default:
		return &optionError{"kind", fmt.Sprintf("%q", a.Kind), "refuse, reset, hang, delay, fail, status, rate_limit, lock_timeout, conflict, truncate or empty"}
	}
	if a.When != "" && a.When != Before && a.When != After {
		return &optionError{"when", string(a.When), "before or after"}
	}
	if a.Status != 0 && (a.Status < 200 || a.Status > 599) {
		return &optionError{"status", fmt.Sprint(a.Status), "200 to 599"}
	}
	if p := r.Match.Probability; p < 0 || p > 1 {
		return &optionError{"probability", fmt.Sprint(p), "0 to 1"}
	}
	if m := r.Match; m.Skip < 0 || m.First < 0 || m.Every < 0 {
		return &optionError{"skip, first, every", fmt.Sprint(m.Skip, m.First, m.Every), "0 or more"}
	}
	return nil
}

// actionJSON is Action with durations as people write them.
type actionJSON struct {
	Kind       Kind   `json:"kind"`
	When       When   `json:"when,omitempty"`
	Status     int    `json:"status,omitempty"`
	HTML       bool   `json:"html,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Delay      string `json:"delay,omitempty"`
}

// MarshalJSON writes durations like "250ms".
func (a Action) MarshalJSON() ([]byte, error) {
	return json.Marshal(actionJSON{a.Kind, a.When, a.Status, a.HTML, durationText(a.RetryAfter), a.Reason, durationText(a.Delay)})
}

// UnmarshalJSON reads durations like "250ms".
func (a *Action) UnmarshalJSON(data []byte) error {
	var j actionJSON
	if err := unmarshalStrict(data, &j); err != nil {
		return err
	}
	*a = Action{Kind: j.Kind, When: j.When, Status: j.Status, HTML: j.HTML, Reason: j.Reason}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"retry_after", j.RetryAfter, &a.RetryAfter}, {"delay", j.Delay, &a.Delay}} {
		if d.text == "" {
			continue
		}
		v, err := time.ParseDuration(d.text)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		*d.to = v
	}
	return nil
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// matches compares with a pattern: exact, or a prefix and an asterisk.
func matches(pattern, s string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(s, prefix)
	}
	return pattern == s
}
