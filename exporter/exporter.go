// Package exporter is the contract between the relay and a provider.
//
// An Exporter sends claimed items and says of each what became of it. It decides nothing about the
// item's state: the outcome names what the provider's answer means, and package machine turns it into a
// fenced transition. Whether a call may be repeated is the exporter's one judgement, and has to be made
// in one table that treats the unknown as uncertain or as worth a retry, never as a refusal.
//
// # Invariants
//
//   - One outcome an item, in the order of the items.
//   - Accepted only with the provider's own word; Rejected only where the provider will refuse the same
//     item again.
//   - An item is never changed on its way: its identifier stands for its payload.
//   - Deliver returns before its context's deadline plus a little; the lease outlives it.
package exporter

import (
	"context"
	"time"

	"github.com/weir-relay/weir/machine"
)

// Exporter sends items to one provider. The relay calls Deliver from several goroutines at once.
type Exporter interface {
	// Deliver sends items, at most Limits().Batch of them, and answers an outcome for each, in their
	// order. It doesn't return an error: what went wrong is part of each outcome.
	Deliver(ctx context.Context, items []machine.Item) []Outcome
	// Limits says what the provider takes. Asked once.
	Limits() Limits
}

// Keyed is an Exporter whose provider wants one call in flight per key.
type Keyed interface {
	Exporter
	// Key names what item must not share with another one in flight; "" is shared with none.
	Key(item *machine.Item) string
}

// Limits says what a provider takes.
type Limits struct {
	// Calls bounds the calls of Deliver in flight. At least 1.
	Calls int
	// Batch bounds the items of one call. At least 1.
	Batch int
	// Rate bounds the calls of Deliver a second. 0 means no bound.
	Rate float64
	// Timeout bounds one call of Deliver; the relay sets it as the context's deadline. The lease must be longer.
	Timeout time.Duration
}

// Kind says which transition an outcome asks for.
type Kind uint8

// The kinds. The zero Kind is none of them, so that an outcome that was left out is noticed.
const (
	Accepted    Kind = iota + 1 // the provider took the item
	Retry                       // send it again later
	Uncertain                   // it can't be known whether the provider took it, and a resend isn't safe
	Rejected                    // the provider refused it, and would again
	Quarantined                 // it must not be sent as it is
)

func (k Kind) String() string {
	switch k {
	case Accepted:
		return "accepted"
	case Retry:
		return "retry"
	case Uncertain:
		return "uncertain"
	case Rejected:
		return "rejected"
	case Quarantined:
		return "quarantined"
	}
	return "none"
}

// Signal is what an outcome tells about the provider rather than about the item. The lane acts on it.
type Signal uint8

// The signals.
const (
	Healthy      Signal = iota // the provider answers
	Unreachable                // no answer, or one that speaks of the provider's trouble: counts towards the breaker
	RateLimited                // the provider asks for fewer calls: the lane waits
	Unauthorized               // the provider refuses the credentials: the lane pauses until they work
	Unasked                    // nothing: the provider was not asked
)

// Outcome is what became of one item.
type Outcome struct {
	Kind   Kind
	Signal Signal
	// Ref is what the provider calls the item. Accepted.
	Ref string
	// Code names the cause in a word, such as "http_503" or the provider's own code. Accepted may have one too,
	// such as "duplicate"; it is for metrics and logs.
	Code string
	// Detail explains it to a person: one line without secrets. The machine keeps 200 characters.
	Detail string
	// After is the least delay before the next attempt, 0 for the policy's backoff. Retry.
	After time.Duration
	// Cost says what the attempt counts for. Retry.
	Cost machine.Cost
}
