package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// LatencyOptions say what load is measured.
type LatencyOptions struct {
	Options
	Rate   float64       // items a second
	Rounds int           // turns that floor and weir each have
	Slice  time.Duration // how long a turn is
}

// Latency is how long a committed item takes.
type Latency struct {
	Rate    float64 `json:"rate"`
	Rounds  int     `json:"rounds"`
	Settled int     `json:"settled_before"`
	// Floor and Weir are from the commit to the request's arrival at the provider.
	Floor Distribution `json:"floor"`
	Weir  Distribution `json:"weir"`
	// FloorClaimed and WeirClaimed are the first part of it: to the claim's execution.
	FloorClaimed Distribution `json:"floor_claimed"`
	WeirClaimed  Distribution `json:"weir_claimed"`
	// Accepted is from the commit of the item to that of its acceptance.
	Accepted Distribution `json:"weir_accepted"`
	Ratio    Ratio        `json:"ratio"`
	Goal     Ratio        `json:"goal"`
	Met      bool         `json:"met"`
	// Unseen is the share of weir's items whose first claim came before their commit could be seen.
	Unseen float64 `json:"weir_unseen_ratio"`
	// FloorExpense lacks the settle, which the floor doesn't have.
	FloorExpense Expense `json:"floor_expense"`
	WeirExpense  Expense `json:"weir_expense"`
	// Late is how much later than meant a producer's commit began at most, in milliseconds.
	Late float64 `json:"producer_late_ms"`
}

// Ratio is weir's latency over the floor's.
type Ratio struct {
	P10 float64 `json:"p10,omitempty"` // what a quiet machine would show; no goal is set for it
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// latencyGoal is what weir is meant to keep.
var latencyGoal = Ratio{P50: 1.3, P99: 3}

// warmUp is how many items each turn begins with that aren't measured: connections and plans are made then.
const warmUp = 200

// latencies is a measurement under way.
type latencies struct {
	*rig
	options  LatencyOptions
	provider *provider
	floor    turns
	weir     turns
	late     time.Duration
}

// turns is what the turns of floor or weir have shown.
type turns struct {
	claimed, arrived, accepted histogram
	spent                      tab
	unseen                     float64
}

func newTurns(s *server) turns {
	return turns{newHistogram(), newHistogram(), newHistogram(), tab{server: s}, 0}
}

// MeasureLatency measures floor and weir in turns.
func MeasureLatency(ctx context.Context, o LatencyOptions) (_ *Latency, err error) {
	r, err := setUp(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	m := &latencies{rig: r, options: o, floor: newTurns(r.server), weir: newTurns(r.server)}
	if m.provider, err = serve(0); err != nil {
		return nil, err
	}
	defer m.provider.close()
	for round := range o.Rounds {
		turns := []func(context.Context, string) error{m.floorTurn, m.weirTurn}
		first := round % 2 // who begins changes, so that a drift of the machine hits both
		for i := range turns {
			name := fmt.Sprintf("%d.%d", round, i)
			if err := turns[(first+i)%2](ctx, name); err != nil {
				return nil, err
			}
		}
	}
	return m.report(), r.dropSlot(ctx)
}

func (m *latencies) report() *Latency {
	l := &Latency{
		Rate: m.options.Rate, Rounds: m.options.Rounds, Settled: m.options.Settled,
		Floor: m.floor.arrived.summary(), Weir: m.weir.arrived.summary(), Accepted: m.weir.accepted.summary(),
		FloorClaimed: m.floor.claimed.summary(), WeirClaimed: m.weir.claimed.summary(),
		Goal:         latencyGoal,
		FloorExpense: m.floor.spent.expense(), WeirExpense: m.weir.spent.expense(),
		Late: ms(m.late),
	}
	l.Unseen = ratio(m.weir.unseen, float64(l.Weir.Count+int64(l.Rounds*warmUp)))
	l.Ratio = Ratio{P10: ratio(l.Weir.P10, l.Floor.P10), P50: ratio(l.Weir.P50, l.Floor.P50), P99: ratio(l.Weir.P99, l.Floor.P99)}
	l.Met = l.Ratio.P50 <= l.Goal.P50 && l.Ratio.P99 <= l.Goal.P99
	return l
}

// floorTurn lets the floor deliver, with no relay running.
func (m *latencies) floorTurn(ctx context.Context, name string) error {
	m.step("turn " + name + ": the floor")
	f, err := m.openFloor(ctx, m.provider.address)
	if err != nil {
		return err
	}
	defer f.close(ctx)
	deliver := func(n int) func(context.Context) error {
		return func(ctx context.Context) error { return f.run(ctx, n) }
	}
	if err := m.load(ctx, referenceLane, name+":warm", warmUp, deliver(warmUp)); err != nil {
		return err
	}
	if err := m.floor.spent.on(ctx); err != nil {
		return err
	}
	if err := m.load(ctx, referenceLane, name, m.items(), deliver(m.items())); err != nil {
		return err
	}
	f.close(ctx)
	if err := m.floor.spent.off(ctx, m.items()); err != nil {
		return err
	}
	return m.collect(ctx, name, &m.floor)
}

// weirTurn lets a relay deliver.
func (m *latencies) weirTurn(ctx context.Context, name string) (err error) {
	m.step("turn " + name + ": weir")
	relay, err := m.start(ctx, relay{lane: stripeLane(m.provider.address, 64)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relay.Stop()) }()
	settled := func(ctx context.Context) error {
		return relay.Await(ctx, func() (bool, error) {
			n, err := m.openItems(ctx, weirLane)
			return n == 0, err
		})
	}
	if err := m.load(ctx, weirLane, name+":warm", warmUp, nil); err != nil {
		return err
	}
	if err := settled(ctx); err != nil {
		return err
	}
	before, err := relay.Cost()
	if err != nil {
		return err
	}
	if err := m.weir.spent.on(ctx); err != nil {
		return err
	}
	if err := m.load(ctx, weirLane, name, m.items(), nil); err != nil {
		return err
	}
	if err := settled(ctx); err != nil {
		return err
	}
	after, err := relay.Cost()
	if err != nil {
		return err
	}
	m.weir.spent.relayed(before, after)
	unseen, err := relay.Metric(ctx, "weir_wakes_unseen_total", "")
	if err != nil {
		return err
	}
	m.weir.unseen += unseen
	if err := relay.Stop(); err != nil {
		return err
	}
	if err := m.weir.spent.off(ctx, m.items()); err != nil {
		return err
	}
	return m.collect(ctx, name, &m.weir)
}

// collect adds what a turn has measured.
func (m *latencies) collect(ctx context.Context, name string, t *turns) error {
	all, err := m.arrivals(ctx, m.provider, name)
	if err != nil {
		return err
	}
	if len(all) != m.items() {
		return fmt.Errorf("turn %s: need %d items, got %d", name, m.items(), len(all))
	}
	for _, a := range all {
		if a.billed == 0 {
			return fmt.Errorf("turn %s: an item never arrived", name)
		}
		t.claimed.add(a.claimed)
		t.arrived.add(a.arrived)
		if a.accepted > 0 {
			t.accepted.add(a.accepted)
		}
	}
	return nil
}

// items is how many items a turn measures.
func (m *latencies) items() int { return int(m.options.Rate * m.options.Slice.Seconds()) }

// load commits n items while deliver, if any, delivers them, and returns when both are done.
func (m *latencies) load(ctx context.Context, lane, name string, n int, deliver func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	delivered := make(chan error, 1)
	go func() {
		var err error
		if deliver != nil {
			if err = deliver(ctx); err != nil {
				cancel(err)
			}
		}
		delivered <- err
	}()
	p, err := m.produce(ctx, lane, name, m.options.Rate, n, 1)
	if err != nil {
		cancel(err)
	}
	m.late = max(m.late, p.late)
	return errors.Join(err, <-delivered)
}
