package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Config is what a reconciler is made of.
type Config struct {
	// DB reaches the database: a *pgxpool.Pool. Required.
	DB DB
	// Exporter is the lane whose items are reconciled. Required.
	Exporter string
	// Books are the provider's. Required.
	Books Books
	// Owner names this process, for people. Defaults to host:pid.
	Owner string
	// Settle is how long after the end of an hour, and after the acceptance of its last item, the provider's number is
	// believed: its books are consistent only eventually. Defaults to 15 minutes.
	Settle time.Duration
	// Interval is the time between passes, over all processes. Defaults to 15 minutes.
	Interval time.Duration
	// ReadsPerHour bounds the questions to the provider. Defaults to 12, which is 8,640 a month: Stripe allows at
	// least 10,000.
	ReadsPerHour int
	// Keep is how long a bucket is remembered. It must be longer than the provider accepts late usage. Defaults to 60 days.
	Keep time.Duration
	// Portion bounds the items that are held in memory at a time, about. Defaults to 200,000.
	Portion int
	// Poll, where it isn't nil, is called in each pass, before anything is compared, with what may still be read: it
	// asks the provider for error reports that didn't come by themselves, and answers how many questions that took.
	Poll func(ctx context.Context, reads int) (made int, err error)
	// Metrics defaults to none.
	Metrics *Metrics
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.DB == nil || c.Books == nil || c.Exporter == "" {
		return c, errors.New("reconcile: DB, Books and Exporter are required")
	}
	if c.Settle < 0 || c.Interval < 0 || c.ReadsPerHour < 0 || c.Keep < 0 || c.Portion < 0 {
		return c, errors.New("reconcile: Settle, Interval, ReadsPerHour, Keep and Portion must not be negative")
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.Settle, 15 * time.Minute}, {&c.Interval, 15 * time.Minute}, {&c.Keep, 60 * 24 * time.Hour}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Owner == "" {
		host, _ := os.Hostname()
		c.Owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if c.ReadsPerHour == 0 {
		c.ReadsPerHour = 12
	}
	if c.Portion == 0 {
		c.Portion = 200_000
	}
	if c.Metrics == nil {
		c.Metrics = newMetrics()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("lane", c.Exporter)
	return c, nil
}

// Reconciler confirms the accepted items of one lane by the provider's books.
type Reconciler struct {
	config  Config
	metrics laneMetrics

	mu       sync.Mutex // guards what follows
	known    map[string]Meter
	knownAt  time.Time
	reported map[string]bool // meters that were told to be incomparable
}

// New makes a reconciler. Nothing happens before Run, Pass or Examine.
func New(c Config) (*Reconciler, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Reconciler{config: c, metrics: c.Metrics.lane(c.Exporter), reported: map[string]bool{}}, nil
}

// maxPause bounds the pause after failures, in intervals.
const maxPause = 8

// Run makes a pass every interval, unless another process makes it, until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	pause := 1
	for {
		wait, err := r.Turn(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.config.Logger.Error("reconcile: the pass ended early; what it found so far is written down", "error", err, "again_in", time.Duration(pause)*r.config.Interval)
			wait = time.Duration(pause) * r.config.Interval
			pause = min(2*pause, maxPause)
		default:
			pause = 1
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// Turn makes a pass if one is due and nobody else makes it. It answers when to come back.
func (r *Reconciler) Turn(ctx context.Context) (wait time.Duration, err error) {
	t, err := r.turn(ctx)
	if err != nil {
		return r.config.Interval, err
	}
	if t.mine {
		if err = r.pass(ctx, t); err != nil {
			r.metrics.failed.Inc()
		} else {
			r.metrics.done.Inc()
		}
	}
	return t.wait, errors.Join(err, r.show(ctx))
}

// pass compares as many buckets as may be read, those that have waited longest first.
//
// ORDER: what weir has accepted is gathered, then the provider is asked, then weir's own rows are looked at again. An item
// that may have reached the provider in between has by then left a trace, and its bucket is left for later.
func (r *Reconciler) pass(ctx context.Context, t turn) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	limit := now.Add(-r.config.Settle)
	reads := t.reads
	var polling error
	if r.config.Poll != nil {
		made, err := r.config.Poll(ctx, reads)
		reads -= made
		polling = errors.Join(err, r.spend(ctx, made))
	}
	if err := r.settleSuspects(ctx, limit); err != nil {
		return errors.Join(polling, err)
	}
	s := scope{to: time.Unix(hourOf(limit), 0).UTC()}
	if s.parts, err = r.parts(ctx); err != nil {
		return errors.Join(polling, err)
	}
	s.part = int(t.number % int64(s.parts))
	buckets, err := r.gather(ctx, s)
	if err != nil {
		return errors.Join(polling, err)
	}
	resting, err := r.revisit(ctx, s, buckets)
	if err != nil {
		return errors.Join(polling, err)
	}
	if err := r.postpone(ctx, buckets, resting); err != nil {
		return errors.Join(polling, err)
	}
	answers, made, asking := r.ask(ctx, plan(buckets, resting), reads)
	if err := r.spend(ctx, made); err != nil {
		return errors.Join(polling, asking, err)
	}
	findings, err := r.examine(ctx, buckets, answers, limit, false)
	if err != nil {
		return errors.Join(polling, asking, err)
	}
	confirmed, err := r.record(ctx, findings)
	r.tell(findings, confirmed, made)
	return errors.Join(polling, asking, err, r.forget(ctx, t))
}

// parts is in how many parts the accepted items are looked at, one a pass, so that memory stays bounded.
func (r *Reconciler) parts(ctx context.Context) (int, error) {
	rows, err := r.config.DB.Query(ctx, `
SELECT count(*) FROM weir.deliveries d WHERE d.accepted_at IS NOT NULL AND d.confirmed_at IS NULL AND d.exporter = $1`, r.config.Exporter)
	if err != nil {
		return 0, fmt.Errorf("count accepted items: %w", err)
	}
	n, err := collectOne(rows)
	if err != nil {
		return 0, fmt.Errorf("count accepted items: %w", err)
	}
	return 1 + int(n)/r.config.Portion, nil
}

// tell logs what a pass found, where it found anything.
func (r *Reconciler) tell(findings []Finding, confirmed, reads int) {
	differ := 0
	for i := range findings {
		f := &findings[i]
		if f.Standing != Differs && f.Standing != Unclear {
			continue
		}
		differ++
		r.config.Logger.Warn("reconcile: the provider's books differ from weir's; see weir reconcile",
			"customer", f.Customer, "meter", f.Meter, "hour", f.Hour.Format(time.RFC3339), "mode", f.Mode,
			"more", f.Side(), "expected", f.Expected.String(), "found", f.Found.String(), "candidates", len(f.Candidates))
	}
	if reads > 0 {
		r.config.Logger.Info("reconcile: pass done", "reads", reads, "buckets", len(findings), "confirmed", confirmed, "differ", differ)
	}
}

// forgetEvery is how many passes lie between two removals of old buckets.
const forgetEvery = 96

// forget removes what is too old to be compared again.
func (r *Reconciler) forget(ctx context.Context, t turn) error {
	if t.number%forgetEvery != 0 {
		return nil
	}
	for _, sql := range []string{
		`DELETE FROM weir.buckets WHERE hour < clock_timestamp() - $2 * interval '1 second' AND exporter = $1`,
		`DELETE FROM weir.drifts WHERE resolved_at < clock_timestamp() - $2 * interval '1 second' AND exporter = $1`,
		`DELETE FROM weir.suspects WHERE settled_at < clock_timestamp() - $2 * interval '1 second' AND exporter = $1`,
	} {
		if _, err := r.config.DB.Exec(ctx, sql, r.config.Exporter, r.config.Keep.Seconds()); err != nil {
			return fmt.Errorf("forget what is old: %w", err)
		}
	}
	return nil
}

// metersFor is how long the provider's meters are remembered: they hardly change.
const metersFor = 6 * time.Hour

func (r *Reconciler) meters(ctx context.Context) (map[string]Meter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known != nil && time.Since(r.knownAt) < metersFor {
		return r.known, nil
	}
	meters, err := r.config.Books.MetersByEvent(ctx)
	if err != nil {
		return nil, err
	}
	r.known, r.knownAt = meters, time.Now()
	return meters, nil
}

// incomparable says once that a meter's items will never be confirmed.
func (r *Reconciler) incomparable(meter string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported[meter] {
		return
	}
	r.reported[meter] = true
	why := "the provider has no such meter"
	if known {
		why = "it doesn't aggregate single events: usage replaces usage"
	}
	r.config.Logger.Warn("reconcile: items on this meter can't be confirmed", "meter", meter, "why", why)
}
