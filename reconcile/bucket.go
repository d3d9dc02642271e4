package reconcile

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/weir-relay/weir/machine"
)

// Key names a bucket of a lane: the usage of one customer on one meter in one hour.
type Key struct {
	Mode     string    `json:"mode"`
	Meter    string    `json:"meter"` // event name
	Customer string    `json:"customer"`
	Hour     time.Time `json:"hour"` // its start, UTC
}

// series is a bucket's key without the hour: what one reading covers.
type series struct{ mode, meter, customer string }

func (k Key) series() series { return series{k.Mode, k.Meter, k.Customer} }

func (s series) at(hour int64) Key {
	return Key{s.mode, s.meter, s.customer, time.Unix(hour, 0).UTC()}
}

// hourOf is the start of t's hour in Unix seconds.
func hourOf(t time.Time) int64 { return t.Unix() - t.Unix()%3600 }

func keyOf(mode string, u Usage) Key {
	return series{mode, u.Meter, u.Customer}.at(hourOf(u.At))
}

// portion is at most portionSize accepted items, which are confirmed in one transaction.
type portion struct {
	ids   []int64
	tally tally
}

const portionSize = 1000

// bucket is what weir knows of a bucket.
type bucket struct {
	Key
	confirmed tally // by earlier passes
	portions  []portion
	items     int       // in them
	oldest    time.Time // when the first of them was accepted
	drifted   bool      // a drift is unresolved
	moving    bool      // an item of it may be on its way to the provider, or may have just come there
	doubts    []Doubt   // uncertain items
	reported  []Doubt   // uncertain items that the provider's error report names
	refused   []Doubt   // rejected items, for an explanation
}

// add takes an accepted item, as usage or as what takes usage back.
func (b *bucket) add(id int64, accepted time.Time, u Usage, back bool) {
	if n := len(b.portions); n == 0 || len(b.portions[n-1].ids) == portionSize {
		b.portions = append(b.portions, portion{})
	}
	p := &b.portions[len(b.portions)-1]
	p.ids = append(p.ids, id)
	if back {
		p.tally.takeBack(u)
	} else {
		p.tally.add(u)
	}
	b.items++
	if b.oldest.IsZero() || accepted.Before(b.oldest) {
		b.oldest = accepted
	}
}

// expected is what weir has sent into the bucket.
func (b *bucket) expected() tally {
	var t tally
	t.plus(b.confirmed)
	for _, p := range b.portions {
		t.plus(p.tally)
	}
	return t
}

// Doubt is an item of a bucket that is not known to be counted.
type Doubt struct {
	ID       int64           `json:"id"`
	Token    int64           `json:"-"` // lease_token, the fence of a recovery
	Identity [32]byte        `json:"-"`
	State    machine.State   `json:"state"`
	Value    decimal.Decimal `json:"value"`
	At       time.Time       `json:"timestamp"`
	Verdict  Verdict         `json:"verdict"`
	Why      string          `json:"why"`
}

// Verdict is what the provider's number proves of a doubtful item.
type Verdict string

// The verdicts.
const (
	Counted    Verdict = "counted"
	NotCounted Verdict = "not_counted"
	CannotTell Verdict = "cannot_tell"
	Reported   Verdict = "reported" // the provider's error report names it: it was refused
)

// Standing is how a bucket stands against the provider's books.
type Standing string

// The standings.
const (
	Agrees  Standing = "agrees"  // the numbers are equal
	Differs Standing = "differs" // they are not
	Moving  Standing = "moving"  // not to be compared yet: something of it is on its way
	Unclear Standing = "unclear" // equal, or nearly, in more than one way
)

// Finding is a bucket that was compared.
type Finding struct {
	Key
	Standing   Standing        `json:"standing"`
	Formula    Formula         `json:"formula"`
	Expected   decimal.Decimal `json:"expected"`
	Found      decimal.Decimal `json:"found"`
	Items      int             `json:"items"`         // accepted ones that wait for confirmation
	Confirmed  int64           `json:"confirmed"`     // events that were confirmed before
	Why        string          `json:"why,omitempty"` // it is unclear
	Doubts     []Doubt         `json:"doubts,omitempty"`
	Candidates []Candidate     `json:"candidates,omitempty"`

	bucket *bucket
}

// empty reports whether there is nothing to say: nobody knows of usage, and no drift is to be resolved.
func (f *Finding) empty() bool {
	return f.Standing == Agrees && f.Items == 0 && f.Confirmed == 0 && f.Found.IsZero() && len(f.Doubts) == 0 && !f.bucket.drifted
}

// Side says who has more, or that it can't be told.
func (f *Finding) Side() string {
	if f.Standing == Unclear {
		return "unclear"
	}
	if f.Found.GreaterThan(f.Expected) {
		return "provider"
	}
	return "weir"
}

// Candidate is an item that would explain a difference.
type Candidate struct {
	ID    int64           `json:"id"`
	State machine.State   `json:"state"`
	Value decimal.Decimal `json:"value"`
	Why   string          `json:"why"`
}
