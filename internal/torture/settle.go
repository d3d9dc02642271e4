package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/internal/daemon"
	"github.com/weir-relay/weir/machine"
)

// settle ends all faults and waits until everything is at rest: no item is open, somebody streams, and gauges
// and checkpoint have what a count finds.
func (w *world) settle(ctx context.Context) {
	w.provider.ClearFaults()
	w.provider.Down(false)
	for _, r := range w.relays {
		if _, err := r.signal(syscall.SIGCONT); err != nil && !errors.Is(err, errDown) {
			w.journal.note("relay %d: %v", r.index, err)
		}
		if err := r.start(); err != nil {
			w.fail("start: %w", err)
		}
	}
	w.journal.note("all faults are over")
	begun := time.Now()
	bounded, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	var left string
	err := pollEvery(bounded, 30*time.Millisecond, func() bool {
		now := w.unsettled(bounded)
		if bounded.Err() == nil {
			left = now // not what an interrupted look made of it
		}
		return left == ""
	})
	if err != nil && left != "" {
		w.fail("not at rest %v after the last fault: %s", w.patience(), left)
		return
	}
	w.journal.note("at rest after %v", time.Since(begun).Round(time.Millisecond))
}

// patience is longer for more items.
func (w *world) patience() time.Duration {
	return w.arena.options.Patience + time.Duration(w.truth.size())*5*time.Millisecond
}

// unsettled says what is not at rest, "" where all is.
func (w *world) unsettled(ctx context.Context) string {
	counts, err := w.count(ctx)
	if err != nil {
		return err.Error()
	}
	if n := counts.Get("stripe", machine.Pending) + counts.Get("stripe", machine.Leased); n > 0 {
		return fmt.Sprintf("%d items are open", n)
	}
	for _, r := range w.relays {
		if err := r.ask(func(p *daemon.Relay) error { return p.Ended() }); err != nil {
			w.fail("relay %d: %w", r.index, err)
			return ""
		}
	}
	for _, r := range w.relays {
		if r.streams(ctx) {
			return w.miscounted(ctx, r, counts)
		}
	}
	return "nobody streams"
}

// count counts the rows.
func (w *world) count(ctx context.Context) (machine.Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rows, err := w.db().Query(ctx, `SELECT exporter, state, count(*) FROM weir.deliveries GROUP BY exporter, state`)
	if err != nil {
		return nil, err
	}
	counts := machine.Counts{}
	var exporter string
	var state machine.State
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&exporter, &state, &n}, func() error {
		counts.Add(exporter, state, n)
		return nil
	})
	return counts, err
}

// miscounted says where the gauges of the relay that streams, or the checkpoint, differ from a count.
func (w *world) miscounted(ctx context.Context, r *relay, counts machine.Counts) string {
	for _, state := range machine.States {
		n, err := r.metric(ctx, "weir_items", `state="`+string(state)+`"`)
		if want := counts.Get("stripe", state); err != nil || int64(n) != want {
			return fmt.Sprintf("the gauge of relay %d has %v items %s, and there are %d (%v)", r.index, n, state, want, err)
		}
	}
	var text string
	var inexact bool
	err := w.db().QueryRow(ctx, `SELECT counts::text, inexact FROM weir.checkpoints WHERE slot = $1`, w.slot()).Scan(&text, &inexact)
	if err != nil {
		return fmt.Sprintf("the checkpoint: %v", err)
	}
	var nested map[string]map[machine.State]int64
	if err := json.Unmarshal([]byte(text), &nested); err != nil {
		return fmt.Sprintf("the checkpoint: %v", err)
	}
	if inexact || !maps.EqualFunc(nested, counts.Nested(), maps.Equal) {
		return fmt.Sprintf("the checkpoint has %s (inexact: %v), and there are %v", text, inexact, counts.Nested())
	}
	return ""
}

// pollEvery asks until the answer is yes.
func pollEvery(ctx context.Context, every time.Duration, yes func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !yes() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
