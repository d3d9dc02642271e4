package stripe

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	sdk "github.com/stripe/stripe-go/v82"
	"golang.org/x/time/rate"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// Exporter sends items to one account of Stripe in one mode, and asks it about its meters. It is safe for concurrent
// use.
type Exporter struct {
	cfg         Config
	mode        Mode
	client      *sdk.Client
	http        *http.Client // under client
	generations *generations
	book        *book
	cancels     *rate.Limiter
	looking     chan struct{} // holds a token while an original is looked at
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
	transport := newHTTP(cfg)
	return &Exporter{
		cfg: cfg, mode: mode, http: transport, client: newClient(cfg, transport),
		generations: newGenerations(), book: &book{}, cancels: rate.NewLimiter(cancelRate, cancelRate),
		looking: make(chan struct{}, 1), now: time.Now,
	}, nil
}

// Sender is what a lane sends with: the Exporter itself, or with Config.Stream one over the meter event stream.
func (e *Exporter) Sender() exporter.Exporter {
	if e.cfg.Stream {
		return newStream(e)
	}
	return e
}

// Mode is the mode of the key.
func (e *Exporter) Mode() Mode { return e.mode }

// Limits says what Stripe takes.
func (e *Exporter) Limits() exporter.Limits {
	return exporter.Limits{Calls: e.cfg.Calls, Batch: 1, Rate: max(e.cfg.Rate, 0), Timeout: e.cfg.Timeout}
}

// Key is the item's customer and meter: Stripe refuses a second call for both while one is in flight. An item
// that can't be read shares nothing, since it isn't sent. A cancellation shares the event's identifier.
func (e *Exporter) Key(item *machine.Item) string {
	// Most items say it themselves. Reading all of the payload, as Deliver does, costs four times as much.
	var own struct{ Customer, Meter string }
	if item.SubjectKind != adjustment && json.Unmarshal(item.Payload, &own) == nil && own.Customer != "" && own.Meter != "" {
		return own.Customer + "\x00" + own.Meter
	}
	ev, p := e.read(item)
	switch {
	case p != nil:
		return ""
	case ev.cancel != nil:
		return ev.cancel.identifier
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
	ev, held := e.admit(ctx, item)
	if held != nil {
		return *held
	}
	return e.settle(item, e.send(ctx, item, ev))
}

// settle reads an answer and keeps what it means for the next attempt.
func (e *Exporter) settle(item *machine.Item, a *answer) exporter.Outcome {
	outcome, rule := e.classify(a)
	e.generations.settle(item, rule.next)
	if a.taken && a.live != (e.mode == Live) {
		outcome.Signal = exporter.Unauthorized
		e.alarm(a)
	}
	return outcome
}

// admit understands an item, or says why it must not be sent now: Stripe isn't asked then, unless a doubt about its
// meter has to be refreshed.
func (e *Exporter) admit(ctx context.Context, item *machine.Item) (*event, *exporter.Outcome) {
	if item.PastHorizon {
		return nil, &exporter.Outcome{
			Kind: exporter.Uncertain, Signal: exporter.Unasked, Code: "past_horizon",
			Detail: "the first attempt is too long ago: Stripe may have forgotten the identifier",
		}
	}
	if e.wrongMode.Load() {
		return nil, paused(problemf("livemode_mismatch",
			"an earlier answer came from the other mode than the key's: check key and URL, then restart"))
	}
	ev, p := e.read(item)
	if p != nil {
		return nil, hold(p)
	}
	if ev.cancel != nil {
		return ev, e.cancellable(ctx, item, ev.cancel)
	}
	if held := window(time.Unix(ev.timestamp, 0), e.now()); held != nil && !e.asks(item, held) {
		return nil, held
	}
	if held := e.trusted(ctx, ev); held != nil && !e.asks(item, held) {
		return nil, held
	}
	if ev.original != "" {
		if _, held := e.corrects(ctx, item, ev.original, ev.vouched); held != nil {
			return nil, held
		}
	}
	return ev, nil
}

// asks reports whether an item goes out though Stripe would probably refuse it: an earlier attempt may have been taken,
// and only Stripe's answer can settle that. The stream gives no such answer.
func (e *Exporter) asks(item *machine.Item, held *exporter.Outcome) bool {
	return held.Kind == exporter.Quarantined && !item.FirstAttempt && !e.cfg.Stream
}

// paused keeps an item back because of the lane, not because of the item: the lane waits for a person.
func paused(p *problem) *exporter.Outcome {
	return &exporter.Outcome{
		Kind: exporter.Retry, Signal: exporter.Unauthorized, Cost: machine.Unsent, Code: p.code, Detail: clean(p.detail),
	}
}

// alarm makes an answer from the wrong mode heard, and stops this Exporter.
func (e *Exporter) alarm(a *answer) {
	e.wrongMode.Store(true)
	e.cfg.Logger.Error("stripe: an answer came from the other mode than the key's; sending stops",
		slog.String("key_mode", string(e.mode)), slog.Bool("livemode", a.live),
		slog.String("identifier", a.identifier), slog.String("request_id", a.requestID()))
	e.cfg.OnModeMismatch(a.identifier)
}
