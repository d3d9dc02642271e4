package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/shopspring/decimal"
	sdk "github.com/stripe/stripe-go/v82"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
)

// Books are Stripe's meter event summaries, as package reconcile reads them.
type Books struct{ e *Exporter }

var _ reconcile.Books = Books{}

// Books answers the books of the account that e sends to.
func (e *Exporter) Books() Books { return Books{e} }

// Mode is that of the key.
func (b Books) Mode() string { return string(b.e.mode) }

// Usage reads an item as Deliver does. False where Deliver, as it is configured now, would not send it, and where it
// cancels an event that is not an item's.
func (b Books) Usage(item *machine.Item) (reconcile.Usage, bool) {
	ev, p := b.e.read(item)
	if p != nil {
		return reconcile.Usage{}, false
	}
	if ev.cancel != nil {
		target, ours := machine.ParseIdentifier(ev.cancel.identifier)
		return reconcile.Usage{Cancels: &target}, ours
	}
	value, err := decimal.NewFromString(ev.value)
	if err != nil {
		return reconcile.Usage{}, false
	}
	return reconcile.Usage{Customer: ev.customer, Meter: ev.meter, Value: value, At: time.Unix(ev.timestamp, 0).UTC()}, true
}

// MetersByEvent answers the meters, active ones before archived ones of the same name. Those for pre-aggregated
// events have no formula here: of several events they count one.
func (b Books) MetersByEvent(ctx context.Context) (map[string]reconcile.Meter, error) {
	meters, err := b.e.Meters(ctx)
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	out := make(map[string]reconcile.Meter, len(meters))
	for _, m := range meters {
		if active[m.Event] && !m.Active {
			continue
		}
		active[m.Event] = active[m.Event] || m.Active
		formula := reconcile.Formula(m.Formula)
		switch formula {
		case reconcile.Sum, reconcile.Count, reconcile.Last:
		default:
			formula = ""
		}
		if m.Window != "" {
			formula = ""
		}
		out[m.Event] = reconcile.Meter{ID: m.ID, Formula: formula}
	}
	return out, nil
}

// summary is a billing.meter_event_summary. The SDK's own type holds aggregated_value as a float64; the text that
// Stripe sent has all the digits there are.
type summary struct {
	Value json.Number `json:"aggregated_value"`
	Start int64       `json:"start_time"`
	Live  bool        `json:"livemode"`
}

type summaryPage struct {
	sdk.APIResource
	Data    []summary `json:"data"`
	HasMore bool      `json:"has_more"`
}

// Read reads the summaries of a customer hour by hour. One page holds them all: a reading covers at most 100 hours.
func (b Books) Read(ctx context.Context, r reconcile.Reading) (map[int64]decimal.Decimal, error) {
	const step = "read summaries"
	if r.Meter.ID == "" || r.To.Sub(r.From) > reconcile.MaxHours*time.Hour {
		return nil, fmt.Errorf("stripe: %s: meter %q, %v: need a meter and at most %d hours", step, r.Meter.ID, r.To.Sub(r.From), reconcile.MaxHours)
	}
	ctx, cancel := context.WithTimeout(ctx, b.e.cfg.Timeout)
	defer cancel()
	query := url.Values{
		"customer":              {r.Customer},
		"start_time":            {strconv.FormatInt(r.From.Unix(), 10)},
		"end_time":              {strconv.FormatInt(r.To.Unix(), 10)},
		"value_grouping_window": {"hour"},
		"limit":                 {strconv.Itoa(reconcile.MaxHours)},
	}
	params := &sdk.Params{Context: ctx}
	if b.e.cfg.Connect {
		params.SetStripeAccount(b.e.cfg.Account)
	}
	// The service's backend, since its List answers floats.
	service := b.e.client.V1BillingMeterEventSummaries
	path := sdk.FormatURLPath("/v1/billing/meters/%s/event_summaries", r.Meter.ID)
	var page summaryPage
	if err := service.B.CallRaw(http.MethodGet, path, service.Key, []byte(query.Encode()), params, &page); err != nil {
		err = asked(step, err)
		var refused *RefusedError
		if errors.As(err, &refused) && (refused.Status == http.StatusBadRequest || refused.Status == http.StatusNotFound) {
			return nil, fmt.Errorf("%w: %w", reconcile.ErrUnknown, err)
		}
		return nil, err
	}
	if page.HasMore {
		return nil, fmt.Errorf("stripe: %s: more than a page for %v: summaries aren't one an hour", step, r.To.Sub(r.From))
	}
	out := make(map[int64]decimal.Decimal, len(page.Data))
	for _, s := range page.Data {
		if s.Live != (b.e.mode == Live) {
			return nil, fmt.Errorf("stripe: %s: a summary has livemode %t, and the key is for mode %s: check the URL", step, s.Live, b.e.mode)
		}
		if _, twice := out[s.Start]; twice || s.Start%3600 != 0 {
			return nil, fmt.Errorf("stripe: %s: a summary begins at %d, which is no hour, or comes twice", step, s.Start)
		}
		value, err := decimal.NewFromString(s.Value.String())
		if err != nil {
			return nil, fmt.Errorf("stripe: %s: aggregated_value %s is no number", step, clip([]byte(s.Value)))
		}
		out[s.Start] = value
	}
	return out, nil
}
