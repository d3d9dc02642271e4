package outbox

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// Item is one billable fact and the intent to send it. Its JSON form is a line of `weir enqueue`.
//
// The first seven fields, all but the payload and what follows it, are the identity: an item with the same
// seven is the same item, and is never sent twice.
type Item struct {
	// TenantKey is the producer's name for its customer. 1 to 255 characters.
	TenantKey string `json:"tenant_key"`
	// SubjectKind says what kind of fact this is. 1 to 63 characters. Defaults to "usage".
	SubjectKind string `json:"subject_kind,omitempty"`
	// SubjectRef says which fact: one usage event, one window. 1 to 1024 characters.
	SubjectRef string `json:"subject_ref"`
	// Exporter names the lane that sends the item. Defaults to "stripe".
	Exporter string `json:"exporter,omitempty"`
	// DestinationAccount is the provider's account. "" is the account of the relay's own key.
	DestinationAccount string `json:"destination_account,omitempty"`
	// Mode is "live" or "test".
	Mode string `json:"mode"`
	// MappingVersion is the version of the rules that made the payload. 1 to 63 characters.
	MappingVersion string `json:"mapping_version"`

	// Payload is what to send: anything that marshals to a JSON object. A json.RawMessage goes to Postgres
	// as it is, with all digits of its numbers; a float64 has at most 17 of them, so prefer strings for amounts.
	Payload any `json:"payload"`

	// OrderKey: an ordering lane sends items with one key in the order of their ids. "" is unordered.
	OrderKey string `json:"order_key,omitempty"`
	// Source is the producing context, for lanes that order by it. "" is none.
	Source string `json:"source,omitempty"`
	// Traceparent is the W3C trace context of the producer. "" is none.
	Traceparent string `json:"traceparent,omitempty"`
	// QuarantineReason, a word such as "attribution_unresolved", stages the item without sending it: the
	// producer already knows that a person has to look at it first. "" lets it go out.
	QuarantineReason string `json:"quarantine_reason,omitempty"`
}

// UnmarshalJSON reads a line of `weir enqueue`. Keys that an Item doesn't have are an error, and Payload
// becomes a json.RawMessage, so that no digit of it is lost.
func (it *Item) UnmarshalJSON(line []byte) error {
	type plain Item
	var read struct {
		plain
		Payload json.RawMessage `json:"payload"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil {
		return err
	}
	*it = Item(read.plain)
	if read.Payload != nil {
		it.Payload = read.Payload
	}
	return nil
}

// Identifier is what the provider deduplicates the item on: 69 bytes, a pure function of the identity. It
// is the identifier of weir.items, known before anything is written.
func Identifier(item Item) string {
	sum := item.withDefaults().identity()
	return "weir_" + hex.EncodeToString(sum[:])
}

// identity is the hash that Postgres generates in weir.outbox.identity.
func (it Item) identity() [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join([]string{
		it.TenantKey,
		it.SubjectKind,
		it.SubjectRef,
		it.Exporter,
		it.DestinationAccount,
		it.Mode,
		it.MappingVersion,
	}, separator)))
}

// separator stands between the seven. None of them may hold it, or two identities could share a hash.
const separator = "\x1f"

func (it Item) withDefaults() Item {
	it.SubjectKind = cmp.Or(it.SubjectKind, "usage")
	it.Exporter = cmp.Or(it.Exporter, "stripe")
	return it
}
