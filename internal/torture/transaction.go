package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-relay/weir/outbox"
)

// What is wrong with an item, where something is.
type flaw string

const (
	sound     flaw = ""
	noValue   flaw = "invalid_value"    // quarantined by the relay
	wrongMode flaw = "mode_mismatch"    // likewise
	tooOld    flaw = "timestamp_window" // likewise
	staged    flaw = "attribution"      // quarantined by the producer
)

// Item is one item that a producer enqueues.
type Item struct {
	Ref      string
	Customer string
	Meter    string
	Value    int
	Key      string    // order_key
	At       time.Time // of the usage
	Flaw     flaw
}

// Transaction is one transaction of a producer.
type Transaction struct {
	Pause    time.Duration // before it
	Items    []Item
	Undone   []Item        // enqueued inside a savepoint that is rolled back
	Linger   time.Duration // between the last statement and the commit: ids commit late
	Rollback bool
}

// meters of the stand-in.
var meters = []string{"api_requests", "storage_bytes"}

func drawProducers(r *rand.Rand, seed uint64, at time.Time) [][]Transaction {
	made := 0
	item := func() Item {
		made++
		it := Item{
			Ref: fmt.Sprintf("%d/%d", seed, made), Customer: fmt.Sprintf("cus_%d", r.IntN(12)),
			Meter: meters[r.IntN(len(meters))], Value: 1 + r.IntN(1000), Key: fmt.Sprint(r.IntN(20)), At: at,
		}
		if r.IntN(40) == 0 {
			it.Flaw = pick(r, noValue, wrongMode, tooOld, staged)
		}
		return it
	}
	items := func(n int) (made []Item) {
		for range n {
			made = append(made, item())
		}
		return made
	}
	// Several producers enqueue these, some at the same moment.
	shared := items(10)
	producers := make([][]Transaction, 2+r.IntN(3))
	for i := range producers {
		for range 10 + r.IntN(20) {
			tx := Transaction{Pause: upTo(r, 80*time.Millisecond), Items: items(1 + r.IntN(6))}
			switch r.IntN(12) {
			case 0:
				tx.Rollback = true
			case 1:
				tx.Undone = items(1 + r.IntN(3))
			case 2:
				tx.Linger = upTo(r, 500*time.Millisecond)
			case 3:
				tx.Items = append(tx.Items, shared[r.IntN(len(shared))])
			}
			producers[i] = append(producers[i], tx)
		}
	}
	if n := bulk(r); n > 0 {
		large := items(n)
		for i := range large {
			large[i].Customer = fmt.Sprintf("cus_bulk_%d", i%1000)
			large[i].Key = ""
		}
		line := producers[0]
		line[r.IntN(len(line))].Items = large
	}
	return producers
}

// bulk is the size of the one large transaction of a run, mostly none. The agenda holds 8,192 wakes: what
// doesn't fit has to be found otherwise.
func bulk(r *rand.Rand) int {
	switch r.IntN(50) {
	case 0:
		return 20000
	case 1, 2, 3, 4:
		return 3000
	default:
		return 0
	}
}

// outbox is the item as package outbox takes it.
func (it Item) outbox() outbox.Item {
	at := it.At
	o := outbox.Item{
		TenantKey: it.Customer, SubjectRef: it.Ref, Mode: "test", MappingVersion: "1", OrderKey: it.Key,
	}
	value := fmt.Sprint(it.Value)
	switch it.Flaw {
	case noValue:
		value = "many"
	case wrongMode:
		o.Mode = "live"
	case tooOld:
		at = at.Add(-50 * 24 * time.Hour)
	case staged:
		o.QuarantineReason = string(staged)
	}
	payload, err := json.Marshal(map[string]string{
		"customer": it.Customer, "meter": it.Meter, "value": value, "timestamp": at.UTC().Format(time.RFC3339),
	})
	if err != nil {
		panic(err) // strings only
	}
	o.Payload = json.RawMessage(payload)
	return o
}

// identifier is what the provider knows the item by.
func (it Item) identifier() string { return outbox.Identifier(it.outbox()) }
