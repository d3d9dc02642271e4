package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run relays the example: starts the relay, lets the producer commit, kills the relay when half of it is
// billed, starts it again, waits until nothing is left to do, and reports. Then it shows what weir finds in
// Stripe's books. The relay goes on running.
func (d *Demo) Run(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.options.Deadline,
		fmt.Errorf("the demo did not come to its end within %v: the machine may be overloaded", d.options.Deadline))
	defer cancel()
	stopShowing := d.show(ctx)
	defer stopShowing()
	start := time.Now()

	d.step("starting the relay")
	if err := d.start(ctx); err != nil {
		return nil, fmt.Errorf("wait for the relay: %w", err)
	}

	d.step("relaying")
	produced := make(chan error, 1)
	go func() { produced <- d.producer.run(ctx, d.pool, d.options.Rate) }()
	err := d.relay.Await(ctx, func() (bool, error) { return d.stripe.Totals().Billed >= len(d.producer.items)/2, nil })
	if err != nil {
		return nil, fmt.Errorf("wait for the first half: %w", err)
	}

	d.step("the relay is killed with SIGKILL")
	var outage outage
	outage.from = time.Now()
	if err := d.relay.Kill(); err != nil {
		return nil, fmt.Errorf("kill the relay: %w", err)
	}
	if err := d.start(ctx); err != nil {
		return nil, fmt.Errorf("wait for the relay after the kill: %w", err)
	}
	outage.to = time.Now()

	d.step("relaying, after the crash")
	if err := <-produced; err != nil {
		return nil, err
	}
	if err := d.relay.Await(ctx, func() (bool, error) { return d.atRest(ctx) }); err != nil {
		return nil, fmt.Errorf("wait for the last item: %w", err)
	}
	report, err := d.report(ctx, outage, time.Since(start))
	if err != nil {
		return nil, err
	}
	if report.Evidence, err = d.evidence(ctx); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	d.step("done")
	return report, nil
}

// outage is the time in which no relay streamed.
type outage struct{ from, to time.Time }

// atRest says whether no item is left to be worked on.
func (d *Demo) atRest(ctx context.Context) (bool, error) {
	var open bool
	err := d.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM weir.deliveries WHERE open)`).Scan(&open)
	return !open, err
}

// show reports the progress a few times a second, until stopped.
func (d *Demo) show(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(150 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				d.step("")
			}
		}
	}()
	return func() {
		cancel(errors.New("the demo has ended"))
		<-ended
	}
}
