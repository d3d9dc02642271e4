package torture

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
)

// Plan is all that a seed decides.
type Plan struct {
	Seed   uint64
	At     time.Time // of the usage
	Relays int
	Order  machine.Order
	// Attempts and Horizon are the policy's. Mostly they are never reached; a few seeds make them short.
	Attempts int
	Horizon  time.Duration
	// Local lets the relays commit without waiting for standbys, so that they see commits that their
	// producers still wait for.
	Local     bool
	Producers [][]Transaction
	Moods     []sandbox.Rule // of the provider, all the time
	Tracks    [][]Strike     // at the same time; in each, one after the other
}

// Strike is one fault.
type Strike struct {
	Kind  string
	Pause time.Duration // before it
	Relay int           // whom it hits, where it hits one
	For   time.Duration // how long, where that is a choice
	N     int           // how much, where that is a choice
}

func (s Strike) String() string {
	return fmt.Sprintf("%s relay=%d for=%v n=%d", s.Kind, s.Relay, s.For, s.N)
}

// The policy of all runs: short enough that what a crash leaves behind is soon free again, and long enough that a
// machine under load still sends within a lease.
const (
	lease       = 1500 * time.Millisecond
	callTimeout = 500 * time.Millisecond
	backoffBase = 40 * time.Millisecond
	backoffCap  = 400 * time.Millisecond
)

// draw makes the plan of a seed, with usage of the time at, as far as the options leave it open.
func draw(seed uint64, at time.Time, o Options) *Plan {
	r := rand.New(rand.NewPCG(seed, 0x77656972))
	p := &Plan{
		Seed:     seed,
		At:       at,
		Relays:   pick(r, 1, 1, 2, 2, 2, 3),
		Order:    pick(r, machine.BestEffort, machine.BestEffort, machine.BestEffort, machine.PerKey),
		Attempts: pick(r, 20, 20, 20, 20, 4),
		Horizon:  pick(r, 10*time.Minute, 10*time.Minute, 10*time.Minute, 4*time.Second),
		Local:    r.IntN(2) == 0,
	}
	if o.Relays > 0 {
		p.Relays = o.Relays
	}
	p.Producers = drawProducers(r, seed, at)
	p.Moods = drawMoods(r)
	for _, track := range [][]string{processStrikes, databaseStrikes} {
		p.Tracks = append(p.Tracks, drawTrack(r, p, among(track, o.Strikes), r.IntN(4)))
	}
	return p
}

// among are those of all that kinds names, or all where it names none.
func among(all, kinds []string) []string {
	if len(kinds) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(kind string) bool { return !slices.Contains(kinds, kind) })
}

// drawTrack picks n strikes out of kinds.
func drawTrack(r *rand.Rand, p *Plan, kinds []string, n int) []Strike {
	var track []Strike
	if len(kinds) == 0 {
		return nil
	}
	for range n {
		s := Strike{
			Kind:  kinds[r.IntN(len(kinds))],
			Pause: upTo(r, 400*time.Millisecond),
			Relay: r.IntN(p.Relays),
			For:   50*time.Millisecond + upTo(r, 700*time.Millisecond),
			N:     1 + r.IntN(4000),
		}
		track = append(track, s)
	}
	return track
}

// drawMoods picks what is wrong with the provider all the time: nothing, or a few of these at once.
func drawMoods(r *rand.Rand) []sandbox.Rule {
	all := []sandbox.Rule{
		{Name: "reset before", Action: sandbox.Action{Kind: sandbox.FaultReset, When: sandbox.Before}},
		{Name: "reset after", Action: sandbox.Action{Kind: sandbox.FaultReset, When: sandbox.After}},
		{Name: "500 before", Action: sandbox.Action{Kind: sandbox.FaultFail, When: sandbox.Before}},
		{Name: "500 after", Action: sandbox.Action{Kind: sandbox.FaultFail, When: sandbox.After}},
		{Name: "503 of a proxy", Action: sandbox.Action{Kind: sandbox.FaultStatus, Status: http.StatusServiceUnavailable, HTML: true, When: pick(r, sandbox.Before, sandbox.After)}},
		{Name: "429", Action: sandbox.Action{Kind: sandbox.FaultRateLimit}},
		{Name: "lock timeout", Action: sandbox.Action{Kind: sandbox.FaultLockTimeout}},
		{Name: "409", Action: sandbox.Action{Kind: sandbox.FaultConflict}},
		{Name: "hang before", Action: sandbox.Action{Kind: sandbox.FaultHang, When: sandbox.Before}},
		{Name: "hang after", Action: sandbox.Action{Kind: sandbox.FaultHang, When: sandbox.After}},
		{Name: "truncated", Action: sandbox.Action{Kind: sandbox.FaultTruncate, When: sandbox.After}},
		{Name: "empty", Action: sandbox.Action{Kind: sandbox.FaultEmpty, When: sandbox.After}},
		{Name: "refused", Action: sandbox.Action{Kind: sandbox.FaultRefuse}},
		{Name: "slow", Action: sandbox.Action{Kind: sandbox.FaultDelay, Delay: upTo(r, callTimeout*9/10), When: sandbox.After}},
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	moods := all[:r.IntN(4)]
	for i := range moods {
		moods[i].Match.Probability = pick(r, 0.005, 0.02, 0.08)
	}
	return moods
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
