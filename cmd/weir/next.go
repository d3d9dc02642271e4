package main

import (
	"fmt"
	"time"

	"github.com/weir-relay/weir/machine"
)

// remembered is how long Stripe knows an identifier at least.
const remembered = 24 * time.Hour

// next says what happens to the item now, or what a person can do, with the command that does it.
func (it *item) next() []string {
	command := func(format string, args ...any) string {
		return fmt.Sprintf("weir "+format, args...)
	}
	if it.AbandonedAt != nil {
		return []string{
			"Nothing: it was abandoned and will never be sent.",
			"To bill it after all, enqueue it again under a subject_ref of its own.",
		}
	}
	switch it.State {
	case machine.Pending:
		if it.NextAttemptAt.After(it.Now) {
			return []string{"Nothing: the relay sends it when it is due, in " + age(it.NextAttemptAt.Sub(it.Now)) + "."}
		}
		return []string{
			"Nothing: the relay sends it. Where that takes long, is the relay running, and its lane not paused?",
			command("status"),
		}
	case machine.Leased:
		return []string{"Nothing: a relay is sending it. If that relay has died, another takes the item once the lease is over."}
	case machine.Accepted:
		return []string{"Nothing: the provider has taken it."}
	case machine.Confirmed:
		return []string{"Nothing: it was found in the provider's books."}
	case machine.Uncertain:
		return append([]string{
			"Nobody knows whether the provider took it. Ask what Stripe's own sums prove:",
			command("recover %d", it.ID),
			"Where they prove nothing, look for the identifier or the usage in the provider's books, then say which:",
			command("recover %d --as accepted --reason …", it.ID) + "   it is there",
			command("recover %d --as rejected --reason …", it.ID) + "   it was refused",
			command("recover %d --as pending --reason …", it.ID) + "    it isn't there: send it again",
		}, it.resendRisk()...)
	case machine.Rejected:
		return []string{
			"The provider refused it, and would again. Enqueue what should be billed under a subject_ref of its own, then close this one:",
			command("abandon %d --reason …", it.ID),
		}
	case machine.Quarantined:
		return []string{
			"It isn't sent until a person says so. Fix the cause, then:",
			command("requeue %d --reason …", it.ID) + "   send it as it is",
			command("abandon %d --reason …", it.ID) + "   never send it",
		}
	}
	return nil
}

// resendRisk says how far a resend is safe from being billed twice.
func (it *item) resendRisk() []string {
	if it.FirstAttemptAt == nil {
		return nil
	}
	since := it.Now.Sub(*it.FirstAttemptAt)
	if since < remembered {
		return []string{fmt.Sprintf("Stripe recognises a resend for %s more, at least: until then it can't be billed twice.", age(remembered-since))}
	}
	return []string{fmt.Sprintf("WARNING: the first attempt was %s ago. Stripe promises to recognise a resend for 24 hours: "+
		"if it did arrive then, --as pending bills it a second time.", age(since))}
}
