package stripe

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/stripe/stripe-go/v82"
)

// Meter is a meter as Stripe has it.
type Meter struct {
	ID          string // as in mtr_…
	Event       string // event_name
	Active      bool   // takes events
	Live        bool
	CustomerKey string // customer_mapping.event_payload_key
	ValueKey    string // value_settings.event_payload_key
	Formula     string // default_aggregation.formula: sum, count or last
	Window      string // event_time_window: "", hour or day
}

// Meters reads all meters of the account, active or not, a page of 100 at a time. Its error says what Stripe
// refused, and is a *RefusedError where it is the key that Stripe refuses.
func (e *Exporter) Meters(ctx context.Context) ([]Meter, error) {
	params := &sdk.BillingMeterListParams{}
	params.Limit = sdk.Int64(100)
	if e.cfg.Connect {
		params.SetStripeAccount(e.cfg.Account)
	}
	var meters []Meter
	for m, err := range e.client.V1BillingMeters.List(ctx, params) {
		if err != nil {
			return nil, asked("read meters", err)
		}
		meters = append(meters, newMeter(m))
	}
	return meters, nil
}

func newMeter(m *sdk.BillingMeter) Meter {
	out := Meter{
		ID:     m.ID,
		Event:  m.EventName,
		Active: m.Status == sdk.BillingMeterStatusActive,
		Live:   m.Livemode,
		Window: string(m.EventTimeWindow),
	}
	if m.CustomerMapping != nil {
		out.CustomerKey = m.CustomerMapping.EventPayloadKey
	}
	if m.ValueSettings != nil {
		out.ValueKey = m.ValueSettings.EventPayloadKey
	}
	if m.DefaultAggregation != nil {
		out.Formula = string(m.DefaultAggregation.Formula)
	}
	return out
}

// account reads the id of the account that the key belongs to.
func (e *Exporter) account(ctx context.Context) (string, error) {
	a, err := e.client.V1Accounts.Retrieve(ctx, nil)
	if err != nil {
		return "", asked("read account", err)
	}
	return a.ID, nil
}

// RefusedError says that Stripe refuses the key, or keeps it from what was asked. Test with errors.As.
type RefusedError struct {
	Status int    // 401 or 403
	Detail string // Stripe's message, without secrets
}

func (err *RefusedError) Error() string {
	return fmt.Sprintf("stripe: HTTP %d: %s: check the key and its permissions", err.Status, err.Detail)
}

// asked wraps the error of a question. The SDK's own text is the whole answer as JSON.
func asked(step string, err error) error {
	var refusal *sdk.Error
	switch {
	case !errors.As(err, &refusal):
		return fmt.Errorf("stripe: %s: %s: is the URL reachable from here?%w", step, clean(err.Error()), cause{err})
	case refusal.HTTPStatusCode == 401 || refusal.HTTPStatusCode == 403:
		return fmt.Errorf("%s: %w", step, &RefusedError{refusal.HTTPStatusCode, clean(refusal.Msg)})
	}
	return fmt.Errorf("stripe: %s: HTTP %d: %s", step, refusal.HTTPStatusCode, clean(refusal.Msg))
}

// cause lets errors.Is see a context's error without printing it twice.
type cause struct{ err error }

func (cause) Error() string   { return "" }
func (c cause) Unwrap() error { return c.err }
