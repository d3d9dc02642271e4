package stripe

import (
	"context"
	"time"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// cancel takes an event back: what an item of subject_kind adjustment asks for.
type cancel struct {
	identifier string    // of the event
	received   time.Time // when Stripe got it, as the producer says; zero where it doesn't
	vouched    bool      // the producer says that it was billed
}

const (
	// cancelWindow is how long after its receipt Stripe lets an event be cancelled.
	cancelWindow = 24 * time.Hour
	// cancelMargin is what of it is left alone: for clocks that differ, and for resends, should the answer be lost.
	cancelMargin = time.Hour
	// cancelRate bounds the cancellations a second. They count to another, lower limit than events.
	cancelRate = 20
)

// readCancel reads a cancellation by the table in the package's comment.
func readCancel(f fields, to route) (*event, *problem) {
	identifier, p := f.text("cancel")
	if p != nil {
		return nil, p
	}
	c := &cancel{identifier: identifier, vouched: f.vouched()}
	if f.get("received_at") != nil {
		at, p := f.time("received_at")
		if p != nil {
			return nil, p
		}
		c.received = time.Unix(at, 0)
	}
	return &event{meter: to.meter, keys: to.keys, cancel: c}, nil
}

// cancellable says why an event can't be cancelled now, nil where it can. A first attempt stays clear of the window's
// end. A resend is made in any case: an earlier attempt may have been taken, and only Stripe knows.
func (e *Exporter) cancellable(ctx context.Context, item *machine.Item, c *cancel) *exporter.Outcome {
	if !e.cancels.Allow() {
		return later("paced", "cancellations are sent more slowly than events", time.Second)
	}
	age, held := e.corrects(ctx, item, c.identifier, c.vouched)
	if held != nil || !item.FirstAttempt {
		return held
	}
	if age == 0 && c.received.IsZero() {
		return hold(problemf("no_received_at", "when Stripe got %s isn't known: need received_at for events that aren't items of this outbox", c.identifier))
	}
	if age == 0 {
		age = e.now().Sub(c.received)
	}
	if age > cancelWindow-cancelMargin {
		return hold(problemf("adjustment_window", "Stripe got %s %v ago and cancels for 24 hours only: send the difference as a correction",
			c.identifier, age.Round(time.Minute)))
	}
	return nil
}

// cancelEvent makes the call of an adjustment. Its answer has no id; what is taken back is what it names.
func (e *Exporter) cancelEvent(ctx context.Context, item *machine.Item, ev *event) *answer {
	identifier := item.Identifier()
	params := &sdk.BillingMeterEventAdjustmentCreateParams{
		EventName: &ev.meter,
		Type:      sdk.String(string(sdk.BillingMeterEventAdjustmentTypeCancel)),
		Cancel:    &sdk.BillingMeterEventAdjustmentCreateCancelParams{Identifier: &ev.cancel.identifier},
	}
	params.SetIdempotencyKey(e.generations.key(item, identifier))
	if e.cfg.Connect {
		params.SetStripeAccount(e.cfg.Account)
	}
	return e.ask(ctx, request{kind: cancelling, item: item.ID, identifier: identifier}, func(ctx context.Context) (receipt, error) {
		made, err := e.client.V1BillingMeterEventAdjustments.Create(ctx, params)
		ours := err == nil && made.Object == "billing.meter_event_adjustment" && made.Cancel != nil &&
			made.Cancel.Identifier == ev.cancel.identifier
		return receipt{ours, made.Livemode}, err
	})
}
