package stripe

import (
	"context"
	"fmt"
	"net/http"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// Stream sends events in batches by the meter event stream, for volume: up to 100 events a request.
//
// Stripe answers a batch before it validates it. So Accepted means here that Stripe has received the event, and no
// more: an event that it can't bill shows up later, in an error report that names samples, or never. Only the
// reconciler's look at the summaries confirms. Whatever can be known before is therefore checked before, by the
// account's meters too (see Inspect).
//
// Batches overtake each other, and so do a customer's events in them. For meters that sum that is nothing.
//
// Cancellations go out as without the stream, one call each.
type Stream struct {
	e       *Exporter
	session sessions
}

// maxBatch is how many events Stripe takes in one request.
const maxBatch = 100

func newStream(e *Exporter) *Stream {
	return &Stream{e: e, session: sessions{e: e}}
}

// Limits says what Stripe takes.
func (s *Stream) Limits() exporter.Limits {
	limits := s.e.Limits()
	limits.Batch = maxBatch
	return limits
}

// member is an item of a batch, and its place among the outcomes.
type member struct {
	item  *machine.Item
	event *event
	out   *exporter.Outcome
}

// Deliver sends what can be sent in one call.
func (s *Stream) Deliver(ctx context.Context, items []machine.Item) []exporter.Outcome {
	ctx, cancel := context.WithTimeout(ctx, s.e.cfg.Timeout)
	defer cancel()
	outcomes := make([]exporter.Outcome, len(items))
	batch := make([]member, 0, len(items))
	for i := range items {
		ev, held := s.e.admit(ctx, &items[i])
		switch {
		case held != nil:
			outcomes[i] = *held
		case ev.cancel != nil:
			outcomes[i] = s.e.settle(&items[i], s.e.send(ctx, &items[i], ev))
		default:
			batch = append(batch, member{&items[i], ev, &outcomes[i]})
		}
	}
	if len(batch) > 0 {
		s.deliver(ctx, batch)
	}
	for i := range items {
		outcomes[i] = doubt(&items[i], outcomes[i])
	}
	return outcomes
}

// deliver sends a batch, and where Stripe refuses it for what is in it, its halves: one bad event must not keep the
// others back, and the answer doesn't say which one it is. The halves carry the same identifiers, so an event that
// was taken in spite of the refusal isn't taken twice.
func (s *Stream) deliver(ctx context.Context, batch []member) {
	a, refused := s.post(ctx, batch)
	if refused != nil {
		for _, m := range batch {
			*m.out = *refused
		}
		return
	}
	o, _ := s.e.classify(a)
	blamed := o.Kind == exporter.Quarantined || o.Kind == exporter.Rejected || a.status == http.StatusRequestEntityTooLarge
	if blamed && len(batch) > 1 {
		s.deliver(ctx, batch[:len(batch)/2])
		s.deliver(ctx, batch[len(batch)/2:])
		return
	}
	if o.Kind == exporter.Accepted && a.taken {
		o.Ref = "stream"
		if id := a.requestID(); id != "" {
			o.Ref += " " + id
		}
	}
	for _, m := range batch {
		*m.out = o
	}
}

// post sends a batch once, or once more if the session turns out to have expired: then nothing of it was taken.
// Where there is no session to be had, it answers the outcome of all.
func (s *Stream) post(ctx context.Context, batch []member) (*answer, *exporter.Outcome) {
	for again := false; ; again = true {
		token, none := s.session.token(ctx)
		if none != nil {
			return nil, s.unopened(none)
		}
		a := s.e.postBatch(ctx, token, batch)
		if again || a.code() != sessionExpired {
			return a, nil
		}
		s.session.drop(token)
	}
}

// postBatch makes the call. A resend of the same batch has the same Idempotency-Key: whether the stream heeds it
// isn't documented, and the identifiers guard each event anyway.
func (e *Exporter) postBatch(ctx context.Context, token string, batch []member) *answer {
	r := request{kind: streaming}
	if len(batch) == 1 {
		r.item, r.identifier = batch[0].item.ID, batch[0].item.Identifier()
	}
	return e.ask(ctx, r, func(ctx context.Context) (receipt, error) {
		body := encode(batch)
		url := e.cfg.StreamURL
		if url == "" {
			url = streamHost
		}
		posted, err := newPost(ctx, url+streamPath, token, body)
		if err != nil {
			return receipt{}, err
		}
		response, err := e.http.Do(posted)
		if err != nil {
			return receipt{}, err
		}
		defer response.Body.Close()
		// What a batch is answered says nothing of the mode: the session did.
		return receipt{live: e.mode == Live, ours: true}, readEmpty(response)
	})
}

// unopened is the outcome of a batch for which there was no session: nothing was sent.
func (s *Stream) unopened(a *answer) *exporter.Outcome {
	if a.taken {
		return paused(problemf("livemode_mismatch", "the session came from the other mode than the key's: check key and URL, then restart"))
	}
	o, _ := s.e.classify(a)
	if o.Kind != exporter.Retry {
		// The account may not stream, or something else answers: no item is at fault.
		o.Signal = exporter.Unauthorized
	}
	o.Kind, o.Cost = exporter.Retry, machine.Unsent
	o.Detail = clean(fmt.Sprintf("no session of the stream: %s", o.Detail))
	return &o
}
