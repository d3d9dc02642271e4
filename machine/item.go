package machine

import (
	"encoding/hex"
	"encoding/json"
	"time"
)

// Item is a claimed item: the intent, and the claim under which it may be sent and settled.
//
// ID and Token together are the claim. A settle names both, and changes nothing once either is out of date.
type Item struct {
	ID       int64
	Token    int64 // the fence: lease_token as this claim set it
	Attempts int   // including this one
	// PastHorizon says that the first attempt is longer ago than the horizon: the item must not be sent
	// again, only doubted. Decided by the database's clock, in the claim.
	PastHorizon bool
	// FirstAttempt says that no earlier attempt can have reached the provider.
	FirstAttempt bool

	Exporter       string
	TenantKey      string
	SubjectKind    string
	SubjectRef     string
	Account        string // destination_account; "" is the account of the key
	Mode           string // live or test
	MappingVersion string
	Identity       [32]byte
	Payload        json.RawMessage
	OrderKey       string // "" where there is none
	Source         string // "" where there is none
	Traceparent    string // "" where there is none
	InsertedAt     time.Time
}

// Exhausted says why the item must be doubted instead of sent, "" where it may be sent. A claim counts as an
// attempt before anything is sent, so even a relay that crashes at every attempt comes to an end.
func (it *Item) Exhausted(p Policy) string {
	switch {
	case it.PastHorizon:
		return "horizon"
	case it.Attempts > p.Attempts:
		return "attempts"
	}
	return ""
}

// Identifier is what the provider deduplicates on: 69 bytes, a pure function of the identity, so that a
// resend of the item is never a second charge inside the provider's window.
func (it *Item) Identifier() string { return Identifier(it.Identity) }

// Identifier is the identifier of the item with this identity.
func Identifier(identity [32]byte) string {
	const prefix = "weir_"
	b := make([]byte, len(prefix)+hex.EncodedLen(len(identity)))
	copy(b, prefix)
	hex.Encode(b[len(prefix):], identity[:])
	return string(b)
}

// Ref names a claim: an item and the token that was given with it.
type Ref struct {
	ID    int64
	Token int64
}

// claim is promoted to the settles, which embed a Ref.
func (r Ref) claim() Ref { return r }

// Ref is the claim under which the item is held.
func (it *Item) Ref() Ref { return Ref{it.ID, it.Token} }
