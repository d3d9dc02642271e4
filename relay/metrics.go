package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// metrics are the counters that the relay's own steps move. What is read off the server or the stream when
// somebody asks is in collector.go. No label holds anything of a tenant: their number has no bound.
type metrics struct {
	wakes        *prometheus.CounterVec   // source
	claims       *prometheus.CounterVec   // exporter, source
	batch        *prometheus.HistogramVec // exporter
	unseen       *prometheus.CounterVec   // exporter
	sweeps       *prometheus.CounterVec   // exporter
	commitToSend *prometheus.HistogramVec // exporter
	deliveries   *prometheus.CounterVec   // exporter, outcome
	duration     *prometheus.HistogramVec // exporter
	settled      *prometheus.CounterVec   // exporter, state
	stale        *prometheus.CounterVec   // exporter
	rateWait     *prometheus.CounterVec   // exporter
}

// latencies are the buckets of what should take about a millisecond.
var latencies = []float64{.00025, .0005, .00075, .001, .0015, .002, .003, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "weir", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "weir", Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &metrics{
		wakes:        counter("wakes_total", "Items that a lane was told to look at, by who told: insert, update.", "source"),
		claims:       counter("claims_total", "Items claimed, by what led to them: wake, sweep.", "exporter", "source"),
		batch:        histogram("claim_batch_size", "Items of one claim that found any.", prometheus.ExponentialBuckets(1, 2, 11), "exporter"),
		unseen:       counter("wakes_unseen_total", "Woken items that were not visible yet, locked, or behind another in their line; they are looked at again.", "exporter"),
		sweeps:       counter("sweeps_total", "Sweeps of the table that were completed.", "exporter"),
		commitToSend: histogram("commit_to_send_seconds", "From an item's commit, by the server's clock, to its first send, by this host's.", latencies, "exporter"),
		deliveries:   counter("deliveries_total", "Outcomes of sends: accepted, retry, uncertain, rejected, quarantined.", "exporter", "outcome"),
		duration:     histogram("delivery_duration_seconds", "How long one call to the provider took.", latencies, "exporter"),
		settled:      counter("settled_total", "Items settled, by the state they went to.", "exporter", "state"),
		stale:        counter("stale_writes_total", "Outcomes that came too late: their items had been claimed again or settled.", "exporter"),
		rateWait:     counter("rate_limit_wait_seconds_total", "Time that the lane waited for its own rate limit.", "exporter"),
	}
	for _, c := range []prometheus.Collector{m.wakes, m.claims, m.batch, m.unseen, m.sweeps, m.commitToSend, m.deliveries,
		m.duration, m.settled, m.stale, m.rateWait} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// laneMetrics are the metrics of one lane, looked up once.
type laneMetrics struct {
	name         string
	all          *metrics
	woken        prometheus.Counter
	swept        prometheus.Counter
	batch        prometheus.Observer
	unseen       prometheus.Counter
	sweeps       prometheus.Counter
	commitToSend prometheus.Observer
	duration     prometheus.Observer
	stale        prometheus.Counter
	rateWait     prometheus.Counter
	outcomes     [exporter.Quarantined + 1]prometheus.Counter
}

func (m *metrics) lane(name string) *laneMetrics {
	l := &laneMetrics{
		name:         name,
		all:          m,
		woken:        m.claims.WithLabelValues(name, "wake"),
		swept:        m.claims.WithLabelValues(name, "sweep"),
		batch:        m.batch.WithLabelValues(name),
		unseen:       m.unseen.WithLabelValues(name),
		sweeps:       m.sweeps.WithLabelValues(name),
		commitToSend: m.commitToSend.WithLabelValues(name),
		duration:     m.duration.WithLabelValues(name),
		stale:        m.stale.WithLabelValues(name),
		rateWait:     m.rateWait.WithLabelValues(name),
	}
	for kind := exporter.Accepted; kind <= exporter.Quarantined; kind++ {
		l.outcomes[kind] = m.deliveries.WithLabelValues(name, kind.String())
	}
	return l
}

func (l *laneMetrics) claimed(source prometheus.Counter, n int) {
	if n > 0 {
		source.Add(float64(n))
		l.batch.Observe(float64(n))
	}
}

// delivered counts the outcomes of one call.
func (l *laneMetrics) delivered(outcomes []exporter.Outcome, took time.Duration) {
	l.duration.Observe(took.Seconds())
	for i := range outcomes {
		l.outcomes[outcomes[i].Kind].Inc()
	}
}

func (l *laneMetrics) settled(state machine.State, n int) {
	l.all.settled.WithLabelValues(l.name, string(state)).Add(float64(n))
}
