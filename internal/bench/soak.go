package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// SoakOptions say which load is held for how long.
type SoakOptions struct {
	Options
	Rate     float64       // items a second
	For      time.Duration //
	Latency  time.Duration // of the provider's answers
	Stream   bool          // by the meter event stream, a hundred items a call
	Together int           // items that the producer commits in one transaction. Defaults to 1
}

// Soak is what came of a load.
type Soak struct {
	Rate     float64      `json:"rate"`
	Stream   bool         `json:"stream"`
	Seconds  float64      `json:"seconds"` // from the first commit to the last acceptance
	Latency  float64      `json:"provider_latency_ms"`
	Settled  int          `json:"settled_before"`
	Items    int          `json:"items"`
	Lost     int          `json:"lost"`         // committed, and never billed
	Twice    int          `json:"billed_twice"` //
	Stale    int          `json:"stale_writes"` // outcomes that the fence refused
	Arrived  Distribution `json:"arrived"`      // from the commit to the request's arrival
	Accepted Distribution `json:"accepted"`     // from the commit to that of the acceptance
	Cores    float64      `json:"relay_cores"`
	Expense  Expense      `json:"expense"`
	Goal     SoakGoal     `json:"goal"`
	Met      bool         `json:"met"`
	Late     float64      `json:"producer_late_ms"`
}

// SoakGoal is what weir is meant to keep at any rate that Stripe takes.
type SoakGoal struct {
	AcceptedP99 float64 `json:"accepted_p99_ms"`
	Cores       float64 `json:"relay_cores"`
}

var soakGoal = SoakGoal{AcceptedP99: 1000, Cores: 1}

// Err says that items were lost or billed twice.
func (s *Soak) Err() error {
	if s.Lost == 0 && s.Twice == 0 {
		return nil
	}
	return fmt.Errorf("%d items were lost and %d billed twice", s.Lost, s.Twice)
}

// patience is how long the last items may take once their producer has ended.
const patience = time.Minute

// MeasureSoak holds a load.
func MeasureSoak(ctx context.Context, o SoakOptions) (_ *Soak, err error) {
	r, err := setUp(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	provider, err := serve(o.Latency)
	if err != nil {
		return nil, err
	}
	defer provider.close()
	relay, err := r.start(ctx, relay{lane: o.lane(provider.address)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, relay.Stop()) }()

	s := &Soak{Rate: o.Rate, Stream: o.Stream, Latency: ms(o.Latency), Settled: o.Settled, Items: int(o.Rate * o.For.Seconds()), Goal: soakGoal}
	r.step(fmt.Sprintf("%.0f items/s for %v", o.Rate, o.For))
	spent := tab{server: r.server}
	if err := spent.on(ctx); err != nil {
		return nil, err
	}
	before, err := relay.Cost()
	if err != nil {
		return nil, err
	}
	p, err := r.produce(ctx, weirLane, "soak", o.Rate, s.Items, max(1, o.Together))
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(patience)
	err = relay.Await(ctx, func() (bool, error) {
		n, err := r.openItems(ctx, weirLane)
		return n == 0 || time.Now().After(deadline), err // what is left is lost, and reported as such
	})
	if err != nil {
		return nil, err
	}
	s.Seconds, s.Late = time.Since(p.from).Seconds(), ms(p.late)
	after, err := relay.Cost()
	if err != nil {
		return nil, err
	}
	spent.relayed(before, after)
	stale, err := relay.Metric(ctx, "weir_stale_writes_total", "")
	if err != nil {
		return nil, err
	}
	s.Stale = int(stale)
	if err := relay.Stop(); err != nil {
		return nil, err
	}
	if err := spent.off(ctx, s.Items); err != nil {
		return nil, err
	}
	s.Expense = spent.expense()
	s.Cores = s.Expense.RelayCPU / s.Seconds
	return s, errors.Join(r.judge(ctx, provider, s), r.dropSlot(ctx))
}

// lane is Stripe's, with three times as many calls as the load has in flight: some are late.
func (o SoakOptions) lane(address string) string {
	inFlight := 3 * o.Rate * o.Latency.Seconds()
	if o.Stream {
		return stripeLane(address, max(8, int(inFlight/100))) + "\n  stream: true"
	}
	return stripeLane(address, max(64, int(inFlight)))
}

// judge compares what was committed with the provider's ledger.
func (r *rig) judge(ctx context.Context, p *provider, s *Soak) error {
	arrived, accepted := newHistogram(), newHistogram()
	arrivals, err := r.arrivals(ctx, p, "soak")
	if err != nil {
		return err
	}
	for _, a := range arrivals {
		switch {
		case a.billed == 0:
			s.Lost++
			continue
		case a.billed > 1:
			s.Twice++
		}
		arrived.add(a.arrived)
		if a.accepted > 0 {
			accepted.add(a.accepted)
		}
	}
	s.Lost += s.Items - len(arrivals)
	s.Arrived, s.Accepted = arrived.summary(), accepted.summary()
	s.Met = s.Accepted.P99 <= s.Goal.AcceptedP99 && s.Cores <= s.Goal.Cores && s.Lost == 0 && s.Twice == 0
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
