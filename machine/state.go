package machine

import (
	"fmt"
	"strings"
)

// State is where an item stands.
type State string

// The states in life order. Each says who takes an item out of it, also after a crash.
const (
	// Pending is due, or will be at next_attempt_at. A deliverer claims it.
	Pending State = "pending"
	// Leased is in a deliverer's hands until lease_expires_at. Its owner settles it; once the lease has
	// expired, whoever claims it next.
	Leased State = "leased"
	// Accepted was taken by the provider. The reconciler confirms it; the provider's own later error
	// report rejects it.
	Accepted State = "accepted"
	// Confirmed was found in the provider's books. Nobody takes it out.
	Confirmed State = "confirmed"
	// Uncertain may or may not have reached the provider, and a resend is no longer safe, or has been
	// tried often enough. A person recovers it with evidence.
	Uncertain State = "uncertain"
	// Rejected was refused by the provider. Nobody takes it out; a person may mark it abandoned.
	Rejected State = "rejected"
	// Quarantined must not be sent as it is. A person fixes the cause and requeues it, or abandons it.
	Quarantined State = "quarantined"
)

// States lists all states in life order.
var States = [...]State{Pending, Leased, Accepted, Confirmed, Uncertain, Rejected, Quarantined}

// Index is the position of s in States, -1 where s is no state.
func (s State) Index() int {
	for i, known := range States {
		if s == known {
			return i
		}
	}
	return -1
}

// Open reports whether s is one that deliverers work on.
func (s State) Open() bool { return s == Pending || s == Leased }

// Event is what happens to an item.
type Event string

// The events, named by what happened.
const (
	Enqueue       Event = "enqueue"        // a producer commits an eligible item
	Stage         Event = "stage"          // a producer commits an ineligible item
	Claim         Event = "claim"          // a deliverer takes it; from leased only when the lease has expired
	Accept        Event = "accept"         // the provider took it
	Retry         Event = "retry"          // try again later
	Doubt         Event = "doubt"          // the outcome can't be known, or no further attempt is allowed
	Reject        Event = "reject"         // the provider refused it
	Quarantine    Event = "quarantine"     // found unfit to send at claim time
	Confirm       Event = "confirm"        // the provider's evidence shows it
	Report        Event = "report"         // the provider reports it as failed after accepting it
	RecoverAccept Event = "recover-accept" // a person has evidence that it was taken
	RecoverRetry  Event = "recover-retry"  // a person wants it sent again
	RecoverReject Event = "recover-reject" // a person has evidence that it was refused
	Requeue       Event = "requeue"        // a person has fixed the cause
	Abandon       Event = "abandon"        // a person records that it will never be sent
)

// None stands for the absence of a row, before Enqueue and Stage.
const None State = ""

// Transition is one row of the machine.
type Transition struct {
	Row       string // T0 to T11
	From      State
	Event     Event
	To        State
	Predicate string // what the UPDATE demands besides the id
	Stale     string // what a writer sees that came too late
}

// Table is the whole machine in life order. Nothing moves an item along an edge that is not here: Next
// refuses it in Go, and the schema's transition trigger in SQL.
var Table = []Transition{
	{"T0", None, Enqueue, Pending, "no item with this identity", "the existing id"},
	{"T0q", None, Stage, Quarantined, "no item with this identity", "the existing id"},
	{"T1", Pending, Claim, Leased, "due, not locked", "nothing; not an error"},
	{"T1", Leased, Claim, Leased, "lease expired, not locked", "nothing; not an error"},
	{"T2", Leased, Accept, Accepted, "lease_token, state", "its id is left out"},
	{"T3", Leased, Retry, Pending, "lease_token, state; inside cap and horizon", "its id is left out"},
	{"T4", Leased, Doubt, Uncertain, "lease_token, state", "its id is left out"},
	{"T5", Leased, Reject, Rejected, "lease_token, state", "its id is left out"},
	{"T6", Leased, Quarantine, Quarantined, "lease_token, state", "its id is left out"},
	{"T7", Accepted, Confirm, Confirmed, "state", "the current state"},
	{"T8", Uncertain, RecoverAccept, Accepted, "lease_token, state", "StateMismatchError"},
	{"T8", Uncertain, RecoverRetry, Pending, "lease_token, state", "StateMismatchError"},
	{"T8", Uncertain, RecoverReject, Rejected, "lease_token, state", "StateMismatchError"},
	{"T9", Quarantined, Requeue, Pending, "mapping_version, state, not abandoned", "ErrMappingChanged"},
	{"T10", Accepted, Report, Rejected, "state", "the current state"},
	{"T11", Rejected, Abandon, Rejected, "state, not abandoned", "StateMismatchError"},
	{"T11", Quarantined, Abandon, Quarantined, "state, not abandoned", "StateMismatchError"},
}

// Next answers the state that event leads to from from. Impossible is loud: the error is a
// *TransitionError naming both.
func Next(from State, event Event) (State, error) {
	for _, t := range Table {
		if t.From == from && t.Event == event {
			return t.To, nil
		}
	}
	return None, &TransitionError{from, event}
}

// String prints the machine as the README quotes it.
func String() string {
	var b strings.Builder
	line := func(row, from, event, to, predicate, stale string) {
		fmt.Fprintf(&b, "| %-3s | %-11s | %-14s | %-11s | %-42s | %-21s |\n", row, from, event, to, predicate, stale)
	}
	line("#", "from", "event", "to", "predicate", "a stale writer sees")
	line("---", "---", "---", "---", "---", "---")
	for _, t := range Table {
		from := string(t.From)
		if t.From == None {
			from = "–"
		}
		line(t.Row, from, string(t.Event), string(t.To), t.Predicate, t.Stale)
	}
	return b.String()
}
