package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Config describes the Stripe that a Sandbox pretends to be. The zero value is usable: no meters, any customer
// `cus_*`, the keys sk_test_weir and sk_live_weir, no rate limits, and Stripe's documented behaviour elsewhere.
type Config struct {
	// Keys that may call. Defaults to sk_test_weir and sk_live_weir, both of account acct_weir.
	Keys []Key

	// Meters that exist at the start, in every account and mode unless the meter says otherwise.
	Meters []Meter

	// Customers that exist at the start, in every account and mode unless the customer says otherwise.
	Customers []Customer

	// AnyCustomer is a pattern such as "cus_*"; a customer whose id matches exists without being listed.
	// Defaults to "cus_*" while Customers is empty, and to none otherwise.
	AnyCustomer string

	// Connected restricts which accounts a Stripe-Account header may name. Empty allows every acct_*.
	Connected []string

	// UniquenessWindow is how long an identifier stays taken after its event was accepted. Stripe promises
	// "at least 24 hours". Defaults to exactly 24 h.
	UniquenessWindow time.Duration

	// IdempotencyWindow is how long the answer to an Idempotency-Key is replayed. Defaults to 24 h; negative
	// turns the idempotency layer off.
	IdempotencyWindow time.Duration

	// ProcessingDelay is the age at which an accepted event shows up in summaries. Defaults to 0: at once.
	ProcessingDelay time.Duration

	// ReportInterval is the width of the window in which asynchronous refusals are gathered into one error
	// report. Defaults to 10 s.
	ReportInterval time.Duration

	// ReportSamples is how many failing events an error report names for each code. Defaults to 5.
	ReportSamples int

	// Limits on calls a second. The zero value limits nothing; see StripeLimits.
	Limits Limits

	// Concurrency is what a second call for the same customer and meter meets while one is in flight.
	// Defaults to ConcurrencyAllowed.
	Concurrency Concurrency

	// Behaviour decides the points on which Stripe's documentation is silent.
	Behaviour Behaviour

	// Faults are rules in force from the start.
	Faults []Rule

	// Seed of the generator behind Match.Probability. Defaults to 1, so that a run can be repeated.
	Seed uint64

	// Webhooks receive thin events, signed.
	Webhooks []Webhook

	// Start is where the sandbox's clock begins. Defaults to the wall clock.
	Start time.Time

	// Logger receives what no client can see, such as a webhook that nobody answers. Defaults to discarding.
	Logger *slog.Logger
}

// Webhook is an event destination with thin payloads.
type Webhook struct {
	URL string `json:"url"`
	// Secret signs the payload (Stripe-Signature), as in whsec_….
	Secret string `json:"secret"`
}

// Validate reports everything that is wrong with the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	for _, k := range c.Keys {
		if err := k.validate(); err != nil {
			errs = append(errs, fmt.Errorf("key %q: %w", redact(k.Secret), err))
		}
	}
	taken := map[scopedName]bool{}
	for _, m := range c.Meters {
		if err := m.validate(); err != nil {
			errs = append(errs, fmt.Errorf("meter %q: %w", m.EventName, err))
		}
		name := scopedName{m.Account, m.Mode, m.EventName}
		if m.Status != StatusInactive && taken[name] {
			errs = append(errs, fmt.Errorf("meter %q: two active meters have this event name; rename one or make it inactive", m.EventName))
		}
		taken[name] = taken[name] || m.Status != StatusInactive
	}
	for _, r := range c.Faults {
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("fault %q: %w", r.Name, err))
		}
	}
	for _, h := range c.Webhooks {
		if !strings.HasPrefix(h.URL, "http://") && !strings.HasPrefix(h.URL, "https://") {
			errs = append(errs, fmt.Errorf("webhook %q: need an http or https URL", h.URL))
		}
	}
	if err := c.Concurrency.validate(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Behaviour.validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type scopedName struct {
	account string
	mode    Mode
	name    string
}

func (c Config) withDefaults() Config {
	if len(c.Keys) == 0 {
		c.Keys = []Key{{Secret: "sk_test_weir"}, {Secret: "sk_live_weir"}}
	}
	if len(c.Customers) == 0 && c.AnyCustomer == "" {
		c.AnyCustomer = "cus_*"
	}
	if c.UniquenessWindow == 0 {
		c.UniquenessWindow = 24 * time.Hour
	}
	if c.IdempotencyWindow == 0 {
		c.IdempotencyWindow = 24 * time.Hour
	}
	if c.ReportInterval == 0 {
		c.ReportInterval = 10 * time.Second
	}
	if c.ReportSamples == 0 {
		c.ReportSamples = 5
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Behaviour = c.Behaviour.withDefaults()
	return c
}
