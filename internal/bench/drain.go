package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-relay/weir/internal/daemon"
)

// DrainOptions say how much is drained.
type DrainOptions struct {
	Options
	Items  int  // of each backlog
	Rounds int  // backlogs that the ceiling and weir each drain
	NoSlot bool // weir without the stream
}

// Drain is how fast a backlog goes.
type Drain struct {
	Items   int  `json:"items"`
	Rounds  int  `json:"rounds"`
	Settled int  `json:"settled_before"`
	Stream  bool `json:"stream"` // the relay read the log meanwhile: it hears of the backlog and of all that it does
	// Ceiling and Weir are items a second, from the first claim to the last acceptance: the median round.
	Ceiling float64 `json:"ceiling"`
	Weir    float64 `json:"weir"`
	Ratio   float64 `json:"ratio"`
	Goal    float64 `json:"goal"`
	Met     bool    `json:"met"`
	// Rates are those of all rounds.
	CeilingRates   []float64 `json:"ceiling_rates"`
	WeirRates      []float64 `json:"weir_rates"`
	CeilingExpense Expense   `json:"ceiling_expense"`
	WeirExpense    Expense   `json:"weir_expense"`
	WAL            WALRatio  `json:"wal"`
}

// WALRatio is what weir writes to the log for an item, over what the bare statements write.
type WALRatio struct {
	Ratio float64 `json:"ratio"`
	Goal  float64 `json:"goal"`
	Met   bool    `json:"met"`
}

const (
	drainGoal = 0.7
	walGoal   = 1.1
)

// MeasureDrain lets the ceiling and weir drain backlogs in turns.
func MeasureDrain(ctx context.Context, o DrainOptions) (_ *Drain, err error) {
	r, err := setUp(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	d := &Drain{Items: o.Items, Rounds: o.Rounds, Settled: o.Settled, Stream: !o.NoSlot, Goal: drainGoal}
	ceiling, weir := tab{server: r.server}, tab{server: r.server}
	if err := r.makeSlot(ctx, o.NoSlot); err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		turns := []func() error{
			func() error { return r.ceilingTurn(ctx, d, &ceiling, round) },
			func() error { return r.weirTurn(ctx, d, &weir, round) },
		}
		for i := range turns {
			if err := turns[(round+i)%2](); err != nil {
				return nil, err
			}
		}
	}
	d.finish(ceiling.expense(), weir.expense())
	return d, r.dropSlot(ctx)
}

func (d *Drain) finish(ceiling, weir Expense) {
	d.CeilingExpense, d.WeirExpense = ceiling, weir
	d.Ceiling, d.Weir = median(d.CeilingRates), median(d.WeirRates)
	d.Ratio = ratio(d.Weir, d.Ceiling)
	d.Met = d.Ratio >= d.Goal
	d.WAL = WALRatio{Ratio: ratio(weir.WALBytes, ceiling.WALBytes), Goal: walGoal}
	d.WAL.Met = d.WAL.Ratio <= d.WAL.Goal
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(v)-1)/2] + sorted[len(v)/2]) / 2
}

// makeSlot lets a relay make its slot, and leave.
func (r *rig) makeSlot(ctx context.Context, none bool) error {
	if none {
		return nil
	}
	relay, err := r.start(ctx, relay{lane: nullLane()})
	if err != nil {
		return err
	}
	return relay.Stop()
}

// ceilingTurn drains a backlog with nothing but the statements.
func (r *rig) ceilingTurn(ctx context.Context, d *Drain, spent *tab, round int) error {
	r.step(fmt.Sprintf("round %d: the ceiling", round))
	c, err := r.openCeiling(ctx)
	if err != nil {
		return err
	}
	defer c.close(ctx)
	if err := spent.on(ctx); err != nil {
		return err
	}
	if err := r.enqueue(ctx, referenceLane, fmt.Sprint("ceiling", round), d.Items); err != nil {
		return err
	}
	if err := r.vacuum(ctx); err != nil {
		return err
	}
	if err := c.run(ctx); err != nil {
		return err
	}
	c.close(ctx)
	rate, err := r.drainedAt(ctx, referenceLane, d.Items)
	if err != nil {
		return err
	}
	d.CeilingRates = append(d.CeilingRates, rate)
	return spent.off(ctx, d.Items)
}

// weirTurn lets a relay start on a backlog: as one does that was away.
func (r *rig) weirTurn(ctx context.Context, d *Drain, spent *tab, round int) (err error) {
	r.step(fmt.Sprintf("round %d: weir", round))
	if err := spent.on(ctx); err != nil {
		return err
	}
	if err := r.enqueue(ctx, weirLane, fmt.Sprint("weir", round), d.Items); err != nil {
		return err
	}
	if err := r.vacuum(ctx); err != nil {
		return err
	}
	relay, err := r.launch(relay{lane: nullLane(), noSlot: !d.Stream})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relay.Stop()) }()
	if err := r.drained(ctx, relay, d.Items); err != nil {
		return err
	}
	cost, err := relay.Cost()
	if err != nil {
		return err
	}
	spent.relayed(daemon.Cost{}, cost)
	if err := relay.Stop(); err != nil {
		return err
	}
	rate, err := r.drainedAt(ctx, weirLane, d.Items)
	if err != nil {
		return err
	}
	d.WeirRates = append(d.WeirRates, rate)
	return spent.off(ctx, d.Items)
}

// drained waits until a relay has accepted n items. It asks seldom: an answer costs the relay more than a
// hundred items do.
func (r *rig) drained(ctx context.Context, relay *daemon.Relay, n int) error {
	for {
		if err := sleepUntil(ctx, time.Now().Add(250*time.Millisecond)); err != nil {
			return err
		}
		if err := relay.Ended(); err != nil {
			return err
		}
		settled, err := relay.Metric(ctx, "weir_settled_total", `state="accepted"`)
		if err == nil && int(settled) >= n {
			return nil
		}
	}
}

// drainedAt is how many items a second the last n of a lane went, by the database's clock.
func (r *rig) drainedAt(ctx context.Context, lane string, n int) (float64, error) {
	var settled int
	var seconds float64
	err := r.pool.QueryRow(ctx, `
SELECT count(accepted_at), extract(epoch FROM max(accepted_at) - min(first_attempt_at))::float8
  FROM (SELECT * FROM weir.deliveries WHERE exporter = $1 ORDER BY id DESC LIMIT $2) d`, lane, n).Scan(&settled, &seconds)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read how long the backlog took: %w", err)
	case settled != n:
		return 0, fmt.Errorf("%d of %d items were not accepted", n-settled, n)
	case time.Duration(seconds*float64(time.Second)) <= 0:
		return 0, errors.New("the backlog took no time: have more items drained")
	}
	return float64(n) / seconds, nil
}
