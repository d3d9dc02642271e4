package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/shopspring/decimal"

	"github.com/weir-relay/weir/machine"
)

// Formula says how a meter makes one number of an hour's events.
type Formula string

// The formulas that can be compared.
const (
	Sum   Formula = "sum"
	Count Formula = "count"
	Last  Formula = "last" // the value of the latest event
)

// Usage is what the provider's books should hold of an item.
type Usage struct {
	Customer string
	Meter    string // event name
	Value    decimal.Decimal
	At       time.Time
	// Cancels is the identity of the item whose usage this one takes back, nil where it is usage itself. The rest is
	// then empty: it is that item's.
	Cancels *[32]byte
}

// Meter is a meter of the provider's.
type Meter struct {
	ID      string
	Formula Formula // "" where its sums can't be compared with the events
}

// Reading asks for the usage of a customer on a meter, hour by hour.
type Reading struct {
	Meter    Meter
	Customer string
	From, To time.Time // full hours, at most MaxHours apart; To is exclusive
}

// MaxHours is how many hours one reading may cover: a page of the provider's.
const MaxHours = 100

// ErrUnknown is what Books.Read answers, wrapped, where the provider refuses this one question for good: it doesn't know the
// customer any more, for instance. Any other error ends the pass. Test with errors.Is.
var ErrUnknown = errors.New("reconcile: the provider doesn't know such usage")

// Books are what the reconciler needs of a provider.
type Books interface {
	// Mode is the provider's world that the books are of: live or test.
	Mode() string
	// Usage reads what an item, as it was sent, stands for. False where it isn't for these books.
	Usage(item *machine.Item) (Usage, bool)
	// MetersByEvent answers the meters by their event names.
	MetersByEvent(ctx context.Context) (map[string]Meter, error)
	// Read answers the provider's numbers by hour, in Unix seconds. An hour that is missing has no usage.
	Read(ctx context.Context, r Reading) (map[int64]decimal.Decimal, error)
}
