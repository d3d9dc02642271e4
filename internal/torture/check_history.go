package torture

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-relay/weir/machine"
)

// checkHistory walks an item's versions, from one to the next.
func (w *world) checkHistory(identifier string, versions []*version) {
	calls := w.provider.seen(identifier)
	var claim *version // that holds now
	var before *version
	for _, v := range versions {
		why := ""
		switch {
		case before == nil:
			why = misborn(v)
		case v.insert:
			why = "it was inserted twice"
		case v.from != before.state:
			why = "it left another state than it says"
		case !possible(v.from, v.state):
			why = "the machine has no such transition"
		case v.state == machine.Leased:
			why = misclaimed(before, v)
		default:
			why = missettled(before, v)
			if why == "" && v.from == machine.Leased && !w.stepped {
				why = usurped(claim, v, calls)
			}
		}
		if v.state == machine.Leased {
			claim = v
		}
		if why != "" {
			w.fail("item %d: %s:\n  %v\n  %v", v.id, why, before, v)
		}
		before = v
	}
}

// misborn says what is wrong with a first version.
func misborn(v *version) string {
	if !v.insert || v.from != machine.None || v.token != 0 || v.attempts != 0 || v.state != machine.Pending && v.state != machine.Quarantined {
		return "it began in the middle"
	}
	return ""
}

func possible(from, to machine.State) bool {
	return slices.ContainsFunc(machine.Table, func(t machine.Transition) bool { return t.From == from && t.To == to })
}

// misclaimed says what is wrong with a claim.
func misclaimed(before, v *version) string {
	switch {
	case v.token != before.token+1:
		return "the token of a claim is not the next one"
	case v.attempts != before.attempts+1:
		return "a claim did not count"
	case before.state == machine.Pending && v.commit.Before(before.next):
		return "it was claimed before it was due"
	case before.state == machine.Leased && v.commit.Before(before.expires):
		return "it was claimed while its lease held"
	case !before.first.IsZero() && !v.first.Equal(before.first):
		return "a later claim moved the first attempt"
	case v.first.IsZero() || v.owner == "":
		return "a claim without an owner or a first attempt"
	}
	return ""
}

// missettled says what is wrong with any other transition.
func missettled(before, v *version) string {
	switch {
	case v.token != before.token:
		return "the token changed without a claim"
	case v.attempts > before.attempts || v.attempts < before.attempts-1:
		return "attempts changed without a claim"
	case !v.first.IsZero() && !v.first.Equal(before.first):
		return "the first attempt moved"
	case before.state != machine.Leased:
		return "it left a state that nobody automatic leaves"
	}
	return ""
}

// unsent are the codes of outcomes for which nobody asked the provider, or nobody answered at all.
var unsent = []string{"handed_back", "unreachable", "cancelled", "exhausted", "past_horizon", "timestamp_ahead", "exporter_",
	string(noValue), string(wrongMode), string(tooOld)}

// usurped says why a settle can't be that of the relay that held the lease: the answer that it is based on was
// not given to it, under this claim. An outcome that is carried past its lease shows here, although
// the row's own columns look as they should.
func usurped(claim, v *version, calls []call) string {
	const slack = time.Millisecond // the server cuts its times to microseconds
	cause := strings.TrimPrefix(strings.TrimPrefix(v.lastError, "attempts exhausted: "), "horizon reached: ")
	for _, code := range unsent {
		if v.state != machine.Accepted && strings.HasPrefix(cause, code) {
			return ""
		}
	}
	// A relay that was frozen before its request left wakes to a timeout that the provider knows nothing of. But one
	// takes as long as the timeout, under the claim that it settles.
	if strings.HasPrefix(cause, "timeout") && v.state != machine.Accepted && v.commit.Sub(claim.commit) >= callTimeout {
		return ""
	}
	for _, c := range calls {
		mine := c.relay == ownerIndex(claim.owner) && !c.received.Before(claim.commit.Add(-slack)) && !c.received.After(v.commit.Add(slack))
		if mine && (v.state != machine.Accepted || c.ref == v.providerRef) {
			return ""
		}
	}
	return "it was settled with an answer that the holder of its lease was not given"
}
