package outbox

import (
	"errors"
	"fmt"
	"strings"
)

// ErrPayloadMismatch says that an item is there already, with another payload. Test with errors.Is; the
// error itself is a *PayloadMismatchError, which names the items.
var ErrPayloadMismatch = errors.New("outbox: the item is there with another payload")

// FieldError says which field of an item can't be stored, and why.
type FieldError struct {
	Field   string // its name in JSON and SQL
	Problem string
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// Mismatch is an item whose identity is there with another payload.
type Mismatch struct {
	Index      int   // of the item in the call
	ID         int64 // weir.outbox.id of the one that stands
	SubjectRef string
	Identifier string
}

// PayloadMismatchError lists the items of one call whose identity is there with another payload. What
// was there first stands; the other items of the call are enqueued, and the transaction is usable.
type PayloadMismatchError struct {
	Items []Mismatch
}

func (e *PayloadMismatchError) Error() string {
	const shown = 3
	var b strings.Builder
	for i, m := range e.Items {
		if i == shown {
			fmt.Fprintf(&b, " and %d more", len(e.Items)-shown)
			break
		}
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " item %d (%s, id %d)", m.Index, m.SubjectRef, m.ID)
	}
	return "outbox: already there with another payload:" + b.String() +
		": a changed payload needs a subject_ref of its own; send the difference as a correction"
}

// Is makes errors.Is(err, ErrPayloadMismatch) true.
func (e *PayloadMismatchError) Is(target error) bool { return target == ErrPayloadMismatch }
