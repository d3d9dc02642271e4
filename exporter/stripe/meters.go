package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"

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

// Meters reads all meters of the account, active or not, a page of 100 at a time. Where Stripe refuses, the
// error is a *RefusedError.
func (e *Exporter) Meters(ctx context.Context) ([]Meter, error) {
	params := &sdk.BillingMeterListParams{}
	params.Limit = sdk.Int64(100)
	if e.cfg.Connect {
		params.SetStripeAccount(e.cfg.Account)
	}
	meters := []Meter{}
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

// RefusedError is a question that Stripe refused to answer. Test with errors.As.
type RefusedError struct {
	Status int    // HTTP: 401 and 403 speak of the key
	Detail string // Stripe's message, without secrets
}

func (err *RefusedError) Error() string {
	hint := ""
	if err.credentials() {
		hint = ": check the key and its permissions"
	}
	return fmt.Sprintf("stripe: HTTP %d: %s%s", err.Status, err.Detail, hint)
}

// credentials reports whether it is the key that is refused.
func (err *RefusedError) credentials() bool {
	return err.Status == http.StatusUnauthorized || err.Status == http.StatusForbidden
}

// asked wraps the error of a question. The SDK's own text is the whole answer as JSON.
func asked(step string, err error) error {
	var refusal *sdk.Error
	if errors.As(err, &refusal) {
		return fmt.Errorf("%s: %w", step, &RefusedError{refusal.HTTPStatusCode, clean(refusal.Msg)})
	}
	return &askError{step, err}
}

// askError is a question without an answer. It keeps its cause for errors.Is, and keys out of its text.
type askError struct {
	step  string
	cause error
}

func (err *askError) Error() string {
	return fmt.Sprintf("stripe: %s: %s: is the URL reachable from here?", err.step, clean(err.cause.Error()))
}

func (err *askError) Unwrap() error { return err.cause }
