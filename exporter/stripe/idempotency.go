package stripe

import (
	"strconv"
	"sync"

	"github.com/weir-relay/weir/machine"
)

// generation says what an answer means for the Idempotency-Key of the item's next attempt.
type generation uint8

const (
	renewed  generation = iota // a new one
	kept                       // as it would have been without this attempt
	repeated                   // the one of this attempt
)

// generations chooses the Idempotency-Key of a call.
//
// Two guards stand between a resend and a second charge. The identifier is the real one: it names the event,
// and an event that exists makes Stripe refuse another, whatever the key. The Idempotency-Key names a
// request: Stripe stores its answer and replays that for a day, good or bad.
//
// So the key is the identifier with a generation behind it. The next attempt
//
//   - repeats the generation where no answer came: if the request arrived, Stripe replays its answer or says that it
//     is still at work, and both guards hold;
//   - keeps what it would have been where nothing was sent, and at a 401, 403, 409 or 429: Stripe doesn't store
//     those;
//   - renews it after any other answer: a stored 500 would be replayed instead of the work being done, and so
//     would a stored refusal after a person has fixed its cause and requeued the item.
//
// A new generation is the claim's fencing token. Every claim has a greater one, on whichever relay, so that a
// stored answer is never met by accident; the number of attempts could return to an earlier value. What is
// to be repeated is remembered only here: another relay, or this one restarted, relies on the identifier alone.
type generations struct {
	mu    sync.Mutex
	open  map[[32]byte]int64 // the generation to repeat, by identity
	limit int
}

// maxOpen bounds the calls without an answer that are remembered, to about a megabyte. The breaker stops a lane
// long before.
const maxOpen = 1 << 14

func newGenerations() *generations {
	return &generations{open: map[[32]byte]int64{}, limit: maxOpen}
}

// key is the Idempotency-Key for sending item now. It starts with the identifier, so that an error report that names
// either leads to the item.
func (g *generations) key(item *machine.Item, identifier string) string {
	g.mu.Lock()
	generation, ok := g.open[item.Identity]
	g.mu.Unlock()
	if !ok {
		generation = item.Token
	}
	return identifier + "-" + strconv.FormatInt(generation, 10)
}

// settle takes note of what an attempt's answer means for the next one.
func (g *generations) settle(item *machine.Item, next generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch next {
	case renewed:
		delete(g.open, item.Identity)
	case repeated:
		if _, ok := g.open[item.Identity]; ok {
			return // the attempt itself repeated it
		}
		if len(g.open) >= g.limit {
			for other := range g.open { // any one: the identifier still guards it
				delete(g.open, other)
				break
			}
		}
		g.open[item.Identity] = item.Token
	}
}
