package reconcile

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of all lanes. Make one, and give it to each Reconciler.
type Metrics struct {
	drift     *prometheus.GaugeVec   // exporter, side
	suspects  *prometheus.GaugeVec   // exporter
	strange   *prometheus.GaugeVec   // exporter
	confirmed *prometheus.CounterVec // exporter
	reads     *prometheus.CounterVec // exporter
	passes    *prometheus.CounterVec // exporter, result
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := newMetrics()
	for _, c := range []prometheus.Collector{m.drift, m.suspects, m.strange, m.confirmed, m.reads, m.passes} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("reconcile: register metrics: %w", err)
		}
	}
	return m, nil
}

func newMetrics() *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "weir", Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "weir", Name: name, Help: help}, labels)
	}
	return &Metrics{
		drift:     gauge("reconcile_drift", "Hours of a customer's usage on a meter in which the provider's books differ from weir's, by who has more: provider, weir; or unclear.", "exporter", "side"),
		suspects:  gauge("reconcile_suspects", "Failures that the provider has reported and that are not settled yet.", "exporter"),
		strange:   gauge("reconcile_unreadable", "Accepted items that the lane, as it is configured now, would not send: they can't be confirmed.", "exporter"),
		confirmed: counter("reconcile_confirmed_total", "Items confirmed by the provider's books.", "exporter"),
		reads:     counter("reconcile_reads_total", "Questions to the provider about usage.", "exporter"),
		passes:    counter("reconcile_passes_total", "Passes over the accepted items, by how they ended: done, failed.", "exporter", "result"),
	}
}

// laneMetrics are those of one lane.
type laneMetrics struct {
	providerHasMore, weirHasMore, unclear, suspects, strange prometheus.Gauge
	confirmed, reads, done, failed                           prometheus.Counter
}

func (m *Metrics) lane(exporter string) laneMetrics {
	return laneMetrics{
		providerHasMore: m.drift.WithLabelValues(exporter, "provider"),
		weirHasMore:     m.drift.WithLabelValues(exporter, "weir"),
		unclear:         m.drift.WithLabelValues(exporter, "unclear"),
		suspects:        m.suspects.WithLabelValues(exporter),
		strange:         m.strange.WithLabelValues(exporter),
		confirmed:       m.confirmed.WithLabelValues(exporter),
		reads:           m.reads.WithLabelValues(exporter),
		done:            m.passes.WithLabelValues(exporter, "done"),
		failed:          m.passes.WithLabelValues(exporter, "failed"),
	}
}

const openSQL = `
SELECT count(*) FILTER (WHERE side = 'provider'),
       count(*) FILTER (WHERE side = 'weir'),
       count(*) FILTER (WHERE side = 'unclear'),
       (SELECT count(*) FROM weir.suspects s WHERE s.exporter = $1 AND s.settled_at IS NULL)
  FROM weir.drifts
 WHERE exporter = $1
   AND resolved_at IS NULL`

// Open is what is unresolved of a lane.
type Open struct {
	ProviderHasMore int64 `json:"provider_has_more"` // buckets
	WeirHasMore     int64 `json:"weir_has_more"`     // buckets
	Unclear         int64 `json:"unclear"`           // buckets
	Suspects        int64 `json:"suspects"`
}

// CountOpen counts what is unresolved of a lane.
func CountOpen(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, exporter string) (Open, error) {
	rows, err := db.Query(ctx, openSQL, exporter)
	if err != nil {
		return Open{}, fmt.Errorf("count drifts: %w", err)
	}
	open, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Open])
	if err != nil {
		return Open{}, fmt.Errorf("count drifts: %w", err)
	}
	return open, nil
}

// show sets the gauges, also in relays that haven't had the pass.
func (r *Reconciler) show(ctx context.Context) error {
	open, err := CountOpen(ctx, r.config.DB, r.config.Exporter)
	if err != nil {
		return err
	}
	r.metrics.providerHasMore.Set(float64(open.ProviderHasMore))
	r.metrics.weirHasMore.Set(float64(open.WeirHasMore))
	r.metrics.unclear.Set(float64(open.Unclear))
	r.metrics.suspects.Set(float64(open.Suspects))
	return nil
}
