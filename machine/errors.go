package machine

import (
	"errors"
	"fmt"
)

var (
	// ErrMappingChanged says that the item was staged under another mapping version than the one expected,
	// so requeueing it would send a payload made by rules that nobody has looked at. Test with errors.Is.
	ErrMappingChanged = errors.New("machine: the item was staged under another mapping version")

	// ErrNotFound says that there is no such item. Test with errors.Is.
	ErrNotFound = errors.New("machine: no such item")
)

// TransitionError is an event that the machine does not have from this state.
type TransitionError struct {
	From  State
	Event Event
}

func (e *TransitionError) Error() string {
	from := e.From
	if from == None {
		from = "none"
	}
	return fmt.Sprintf("machine: no transition %s --%s-->", from, e.Event)
}

// StateMismatchError says that an item isn't where its writer expected it.
// Current is where it stands, and Token its lease_token, both re-read after the refusal.
type StateMismatchError struct {
	ID       int64
	Expected State
	Current  State
	Token    int64
	// Abandoned says that a person has marked the item as never to be sent, which closes it.
	Abandoned bool
}

func (e *StateMismatchError) Error() string {
	if e.Abandoned {
		return fmt.Sprintf("machine: item %d is %s and abandoned: enqueue what should be sent under a subject_ref of its own", e.ID, e.Current)
	}
	return fmt.Sprintf("machine: item %d is %s (lease token %d), not %s as expected: look at it again before deciding",
		e.ID, e.Current, e.Token, e.Expected)
}
