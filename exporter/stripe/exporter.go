package stripe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// Exporter sends items to one account of Stripe in one mode. It is safe for concurrent use.
type Exporter struct {
	cfg         Config
	mode        Mode
	client      *sdk.Client
	generations *generations
	now         func() time.Time
	wrongMode   atomic.Bool // set by the first answer from the other mode, and never cleared
}

var _ exporter.Keyed = (*Exporter)(nil)

// New makes an Exporter. It calls nobody; see Check.
func New(cfg Config) (*Exporter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	mode, err := cfg.Key.Mode()
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Exporter{cfg: cfg, mode: mode, client: newClient(cfg), generations: newGenerations(), now: time.Now}, nil
}

// Mode is the mode of the key.
func (e *Exporter) Mode() Mode { return e.mode }

// Limits says what Stripe takes.
func (e *Exporter) Limits() exporter.Limits {
	return exporter.Limits{Calls: e.cfg.Calls, Batch: 1, Rate: max(e.cfg.Rate, 0), Timeout: e.cfg.Timeout}
}

// Key is the item's customer and meter: Stripe refuses a second call for both while one is in flight. A
// payload that can't be read shares nothing, since it isn't sent.
func (e *Exporter) Key(item *machine.Item) string {
	ev, p := parse(item.Payload)
	if p != nil {
		return ""
	}
	return ev.customer + "\x00" + ev.meter
}

// Deliver sends items, one call each, one after the other.
func (e *Exporter) Deliver(ctx context.Context, items []machine.Item) []exporter.Outcome {
	outcomes := make([]exporter.Outcome, len(items))
	for i := range items {
		outcomes[i] = doubt(&items[i], e.deliver(ctx, &items[i]))
	}
	return outcomes
}

// doubt keeps a refusal from hiding an earlier attempt that may have been taken: quarantined and rejected
// both say that the item isn't billed, and a person who requeues it after days would bill it twice.
func doubt(item *machine.Item, o exporter.Outcome) exporter.Outcome {
	if item.FirstAttempt || o.Kind != exporter.Quarantined && o.Kind != exporter.Rejected {
		return o
	}
	o.Kind = exporter.Uncertain
	o.Detail = clean("an earlier attempt may have been taken; this one: " + o.Detail)
	return o
}

func (e *Exporter) deliver(ctx context.Context, item *machine.Item) exporter.Outcome {
	params, held := e.admit(item)
	if held != nil {
		return *held
	}
	a := e.send(ctx, item, params)
	outcome, rule := e.classify(a)
	e.generations.settle(item, rule.next)
	if a.event != nil && a.event.Livemode != (e.mode == Live) {
		outcome.Signal = exporter.Unauthorized
		e.alarm(a)
	}
	return outcome
}

// admit makes the request of an item, or says why it must not be sent now: Stripe isn't asked then.
func (e *Exporter) admit(item *machine.Item) (*sdk.BillingMeterEventCreateParams, *exporter.Outcome) {
	if item.PastHorizon {
		return nil, &exporter.Outcome{
			Kind: exporter.Uncertain, Signal: exporter.Unasked, Code: "past_horizon",
			Detail: "the first attempt is too long ago: Stripe may have forgotten the identifier",
		}
	}
	if e.wrongMode.Load() {
		return nil, &exporter.Outcome{
			Kind: exporter.Retry, Signal: exporter.Unauthorized, Cost: machine.Unsent, Code: "livemode_mismatch",
			Detail: "an earlier answer came from the other mode than the key's: check key and URL, then restart",
		}
	}
	ev, p := parse(item.Payload)
	if p == nil {
		p = e.address(item)
	}
	if p != nil {
		return nil, hold(p)
	}
	if held := window(time.Unix(ev.timestamp, 0), e.now()); held != nil {
		return nil, held
	}
	payload, p := ev.payload(e.cfg.Meters[ev.meter].withDefaults())
	if p != nil {
		return nil, hold(p)
	}
	identifier := item.Identifier()
	params := &sdk.BillingMeterEventCreateParams{
		EventName: &ev.meter, Identifier: &identifier, Payload: payload, Timestamp: &ev.timestamp,
	}
	params.SetIdempotencyKey(e.generations.key(item, identifier))
	if e.cfg.Connect {
		params.SetStripeAccount(e.cfg.Account)
	}
	return params, nil
}

// address refuses items that are meant for another mode or account than the key's.
func (e *Exporter) address(item *machine.Item) *problem {
	if item.Mode != string(e.mode) {
		return problemf("mode_mismatch", "the item is for mode %q, the key is for %q", item.Mode, e.mode)
	}
	if item.Account == e.cfg.Account || item.Account == "" && !e.cfg.Connect {
		return nil
	}
	return problemf("account_mismatch", "the item is for %s, this exporter sends to %s",
		cmp.Or(item.Account, "the key's own account"), cmp.Or(e.cfg.Account, "the key's own account, and none is configured"))
}

// send makes the call. A panic in the SDK is an error like another; whether the event had left is known.
func (e *Exporter) send(ctx context.Context, item *machine.Item, params *sdk.BillingMeterEventCreateParams) (a *answer) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	ctx, call := observe(ctx)
	defer func() {
		if r := recover(); r != nil {
			e.cfg.Logger.Error("stripe: panic while sending", slog.Int64("item", item.ID),
				slog.String("panic", clean(fmt.Sprint(r))), slog.String("stack", string(debug.Stack())))
			a = newAnswer(ctx, *params.Identifier, call, nil, fmt.Errorf("panic: %v", r))
		}
	}()
	event, err := e.client.V1BillingMeterEvents.Create(ctx, params)
	return newAnswer(ctx, *params.Identifier, call, event, err)
}

// alarm makes an answer from the wrong mode heard, and stops this Exporter.
func (e *Exporter) alarm(a *answer) {
	e.wrongMode.Store(true)
	e.cfg.Logger.Error("stripe: an answer came from the other mode than the key's; sending stops",
		slog.String("key_mode", string(e.mode)), slog.Bool("livemode", a.event.Livemode),
		slog.String("identifier", a.identifier), slog.String("request_id", a.requestID()))
	e.cfg.OnModeMismatch(a.identifier)
}
