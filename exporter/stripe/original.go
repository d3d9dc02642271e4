package stripe

import (
	"context"
	"errors"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// Originals knows the items that corrections name. A *machine.Store is one.
type Originals interface {
	// Original finds an item by its identifier; the error wraps machine.ErrNotFound where there is none.
	Original(ctx context.Context, identifier string) (machine.Original, error)
}

// originalBilled is the original_state of an original that was billed. Any other word means that it wasn't.
const originalBilled = "billed"

// original reads the identifier of the event that this one corrects.
func (f fields) original() (string, *problem) {
	if f.get("original") == nil {
		return "", nil
	}
	return f.text("original")
}

// vouched reports whether the producer says that the original was billed.
func (f fields) vouched() bool {
	word, _ := f.word("original_state")
	return word == originalBilled
}

// uncertainOriginal is how often a correction looks whether a person has settled its original.
const uncertainOriginal = time.Minute

// corrects looks at the original of a correction, and answers how long ago Stripe can first have got it: 0 where that
// isn't known. Where the correction can't go out yet, or not at all, it says so. A correction of what isn't billed
// would be billed itself, to the customer's harm or favour.
func (e *Exporter) corrects(ctx context.Context, item *machine.Item, identifier string, vouched bool) (age time.Duration, held *exporter.Outcome) {
	if _, ours := machine.ParseIdentifier(identifier); !ours || e.cfg.Originals == nil {
		return 0, nil // nothing here knows it
	}
	// One at a time: the connections belong to the lanes, and corrections are few.
	select {
	case e.looking <- struct{}{}:
		defer func() { <-e.looking }()
	case <-ctx.Done():
		return 0, later("original_unread", "the time was up before its original was looked at", 0)
	}
	o, err := e.cfg.Originals.Original(ctx, identifier)
	switch {
	case errors.Is(err, machine.ErrNotFound) && vouched:
		return 0, nil // gone by retention
	case errors.Is(err, machine.ErrNotFound):
		return 0, hold(problemf("original_ineligible", "the outbox has no item %s", identifier))
	case err != nil:
		return 0, later("original_unread", "its original couldn't be looked at: "+err.Error(), 0)
	case o.Exporter != item.Exporter || o.Account != item.Account || o.Mode != item.Mode:
		return 0, hold(problemf("original_ineligible", "%s is an item of exporter %q, account %q, mode %q",
			identifier, o.Exporter, o.Account, o.Mode))
	}
	switch o.State {
	case machine.Accepted, machine.Confirmed:
		return o.Age, nil
	case machine.Rejected, machine.Quarantined:
		return 0, hold(problemf("original_ineligible", "%s is %s: nothing was billed that could be corrected", identifier, o.State))
	case machine.Uncertain:
		return 0, later("original_uncertain", "it waits until a person has settled "+identifier, uncertainOriginal)
	}
	return 0, later("original_open", "it waits until "+identifier+" is settled", 0)
}

// later postpones an item that was not sent.
func later(code, detail string, after time.Duration) *exporter.Outcome {
	return &exporter.Outcome{
		Kind: exporter.Retry, Signal: exporter.Unasked, Cost: machine.Unsent, After: machine.Jitter(after),
		Code: code, Detail: clean(detail),
	}
}
