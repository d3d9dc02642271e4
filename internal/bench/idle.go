package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// IdleOptions say how long nothing happens.
type IdleOptions struct {
	Options
	For time.Duration
}

// Idle is what a relay with nothing to do asks of the database, in statements a minute.
type Idle struct {
	Seconds    float64  `json:"seconds"`
	Checkpoint float64  `json:"checkpoint_per_minute"` // the checkpoint's own
	Status     float64  `json:"status_per_minute"`     // looks at the slot, at the oldest open item and at what waits for a person
	Other      float64  `json:"other_per_minute"`
	Others     []string `json:"others"` // the texts of the latter
	Goal       float64  `json:"goal"`   // of Other
	Met        bool     `json:"met"`
	Expense    Expense  `json:"expense"`
}

// ErrPrivateOnly says that a measurement reads the server's own log. Test with errors.Is.
var ErrPrivateOnly = errors.New("this is counted in the server's own log, so it takes a private cluster: leave out the database")

// MeasureIdle counts the statements that the server's log shows. Before, the relay has had items, so that
// all that it ever does at the start of its life is behind it.
func MeasureIdle(ctx context.Context, o IdleOptions) (_ *Idle, err error) {
	if o.URL != "" {
		return nil, ErrPrivateOnly
	}
	o.settings = map[string]string{"log_statement": "all", "log_line_prefix": "%a|"}
	r, err := setUp(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	relay, err := r.start(ctx, relay{lane: nullLane()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, relay.Stop()) }()
	r.step("working, to begin with")
	if _, err := r.produce(ctx, weirLane, "before", 500, 500, 1); err != nil {
		return nil, err
	}
	err = relay.Await(ctx, func() (bool, error) {
		n, err := r.openItems(ctx, weirLane)
		return n == 0, err
	})
	if err != nil {
		return nil, err
	}
	// The checkpoint of what was just done, and everything else that follows at once, is not idleness.
	if err := sleepUntil(ctx, time.Now().Add(3*time.Second)); err != nil {
		return nil, err
	}
	r.step(fmt.Sprintf("idle for %v", o.For))
	before, err := relay.Cost()
	if err != nil {
		return nil, err
	}
	spent := tab{server: r.server}
	if err := spent.on(ctx); err != nil {
		return nil, err
	}
	log, err := openLog(r.cluster.Log())
	if err != nil {
		return nil, err
	}
	defer log.close()
	if err := sleepUntil(ctx, time.Now().Add(o.For)); err != nil {
		return nil, err
	}
	statements, err := log.statements()
	if err != nil {
		return nil, err
	}
	after, err := relay.Cost()
	if err != nil {
		return nil, err
	}
	spent.relayed(before, after)
	if err := spent.off(ctx, 0); err != nil {
		return nil, err
	}
	return idleReport(statements, o.For, spent.expense()), nil
}

func idleReport(statements []string, took time.Duration, spent Expense) *Idle {
	i := &Idle{Seconds: took.Seconds(), Others: []string{}, Expense: spent}
	a := 1 / took.Minutes()
	for _, s := range statements {
		switch purposeOf(s) {
		case forCheckpoint:
			i.Checkpoint += a
		case forStatus:
			i.Status += a
		default:
			i.Other += a
			i.Others = append(i.Others, s)
		}
	}
	i.Met = i.Other <= i.Goal
	return i
}
