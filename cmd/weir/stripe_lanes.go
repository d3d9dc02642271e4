package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/internal/config"
)

// stripeLanes are the Stripe lanes of a running relay. They look after their accounts: at the start, every hour, and
// whenever an item meets a meter that was found unsafe.
type stripeLanes struct {
	app       *app
	originals stripe.Originals
	log       *slog.Logger

	lanes      []*stripeLane
	mismatches *prometheus.CounterVec // exporter
	findings   *prometheus.GaugeVec   // exporter, severity
}

// stripeLane is one of them.
type stripeLane struct {
	name     string
	strict   bool
	exporter *stripe.Exporter
	log      *slog.Logger
	findings *prometheus.GaugeVec
	said     string // what was logged last, so that an hourly look repeats nothing
}

func newStripeLanes(a *app, originals stripe.Originals, log *slog.Logger, registry prometheus.Registerer) *stripeLanes {
	s := &stripeLanes{
		app:       a,
		originals: originals,
		log:       log,
		mismatches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "weir", Subsystem: "stripe", Name: "mode_mismatch_total",
			Help: "Answers that came from the other mode than the key's. The first one stops its lane.",
		}, []string{"exporter"}),
		findings: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "weir", Subsystem: "stripe", Name: "findings",
			Help: "What the latest look at key, account and meters found, by severity: error, warning. weir doctor says what.",
		}, []string{"exporter", "severity"}),
	}
	registry.MustRegister(s.mismatches, s.findings)
	return s
}

// add makes the exporter that a lane sends with.
func (s *stripeLanes) add(name string, lane *config.Lane) (exporter.Exporter, error) {
	c, err := s.app.stripeConfig(name, lane)
	if err != nil {
		return nil, err
	}
	mismatches := s.mismatches.WithLabelValues(name)
	c.OnModeMismatch = func(string) { mismatches.Inc() }
	c.Originals = s.originals
	made, err := stripe.New(c)
	if err != nil {
		return nil, usageError{fmt.Errorf("lane %s: %w", name, err)}
	}
	s.lanes = append(s.lanes, &stripeLane{
		name: name, strict: lane.Stripe.Strict, exporter: made, log: s.log.With("lane", name), findings: s.findings,
	})
	return made.Sender(), nil
}

// firstLook bounds the look at one account before the start. Stripe out of reach must not keep the relay from it.
const firstLook = 5 * time.Second

// inspect looks at the accounts before the first item is sent. Its error refuses the start: a strict lane's account
// isn't right.
func (s *stripeLanes) inspect(ctx context.Context) error {
	for _, l := range s.lanes {
		asking, cancel := context.WithTimeout(ctx, firstLook)
		found, err := l.exporter.Inspect(asking)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		l.report(found, err)
		if wrong := broken(found); l.strict && len(wrong) > 0 {
			return fmt.Errorf("lane %s is strict, and Stripe says that it isn't right: %s", l.name, strings.Join(wrong, "; "))
		}
	}
	return nil
}

// watch goes on looking until ctx ends.
func (s *stripeLanes) watch(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range s.lanes {
		all.Go(func() { l.exporter.Watch(ctx, l.report) })
	}
	all.Wait()
}

// report tells what a look found, to the log where it is new.
func (l *stripeLane) report(found []stripe.Finding, err error) {
	if err != nil {
		l.log.Warn("Stripe couldn't be asked about the lane's meters; weir delivers, and asks again", "error", err)
		return
	}
	count := map[stripe.Severity]int{}
	var said strings.Builder
	for _, f := range found {
		count[f.Severity]++
		fmt.Fprintln(&said, f)
	}
	for _, severity := range []stripe.Severity{stripe.Broken, stripe.Suspect} {
		l.findings.WithLabelValues(l.name, string(severity)).Set(float64(count[severity]))
	}
	if said.String() == l.said {
		return
	}
	l.said = said.String()
	for _, f := range found {
		level := slog.LevelWarn
		if f.Severity == stripe.Broken {
			level = slog.LevelError
		}
		l.log.Log(context.Background(), level, f.Detail, "code", f.Code, "meter", f.Meter, "fix", f.Hint)
	}
	if len(found) == 0 {
		l.log.Info("Stripe takes the key, and the meters are as they should be", "mode", l.exporter.Mode())
	}
}

// broken are the findings because of which items fail or are billed wrongly.
func broken(found []stripe.Finding) []string {
	var out []string
	for _, f := range found {
		if f.Severity == stripe.Broken {
			out = append(out, f.String())
		}
	}
	return out
}
