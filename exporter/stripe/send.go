package stripe

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/weir-relay/weir/machine"
)

// send makes the call of an item.
func (e *Exporter) send(ctx context.Context, item *machine.Item, ev *event) *answer {
	if ev.cancel != nil {
		return e.cancelEvent(ctx, item, ev)
	}
	identifier := item.Identifier()
	params := &sdk.BillingMeterEventCreateParams{
		EventName: &ev.meter, Identifier: &identifier, Payload: ev.payload(), Timestamp: &ev.timestamp,
	}
	params.SetIdempotencyKey(e.generations.key(item, identifier))
	if e.cfg.Connect {
		params.SetStripeAccount(e.cfg.Account)
	}
	return e.ask(ctx, request{reporting, item.ID, identifier}, func(ctx context.Context) (receipt, error) {
		made, err := e.client.V1BillingMeterEvents.Create(ctx, params)
		return receipt{err == nil && made.Object == "billing.meter_event" && made.Identifier == identifier, made.Livemode}, err
	})
}

// ask makes a call. A panic in the SDK is an error like another; whether the request had left is known.
func (e *Exporter) ask(ctx context.Context, r request, do func(context.Context) (receipt, error)) (a *answer) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	ctx, call := observe(ctx)
	defer func() {
		if p := recover(); p != nil {
			e.cfg.Logger.Error("stripe: panic while sending", slog.Int64("item", r.item),
				slog.String("panic", clean(fmt.Sprint(p))), slog.String("stack", string(debug.Stack())))
			a = newAnswer(ctx, r, call, receipt{}, fmt.Errorf("panic: %v", p))
		}
	}()
	got, err := do(ctx)
	return newAnswer(ctx, r, call, got, err)
}
