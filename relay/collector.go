package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// collector reads the gauges off the relay's status when somebody asks. It asks the database nothing: the
// counts are the checkpoint's, the slot is as the stream last saw it.
type collector struct{ relay *Relay }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_"+name, help, labels, nil)
}

var (
	descItems         = desc("items", "Items in each state, exact as of the last transaction read. Only the relay that streams has them.", "exporter", "state")
	descOldest        = desc("oldest_pending_age_seconds", "Age of the oldest open item; 0 where there is none.", "exporter")
	descAttention     = desc("attention", "Items that wait for a person: uncertain, rejected or quarantined, and not abandoned. Counts to 10,000.", "exporter")
	descWindow        = desc("lane_window", "Calls to the provider that may be in flight, as the lane has found out.", "exporter")
	descPaused        = desc("lane_paused", "1 while the lane doesn't claim: unreachable, unauthorized, rate_limited.", "exporter", "reason")
	descHeld          = desc("lane_held", "Items claimed and not yet delivered.", "exporter")
	descReady         = desc("lane_ready", "Items woken and not yet claimed.", "exporter")
	descLater         = desc("lane_later", "Items that wait for their time in memory.", "exporter")
	descSweeping      = desc("lane_sweeping", "1 while a look at the whole table is owed.", "exporter")
	descStreaming     = desc("streaming", "1 while this relay streams; 0 while it stands by or polls.")
	descLagBytes      = desc("replication_lag_bytes", "Written by the server and not yet read.")
	descLagSeconds    = desc("replication_lag_seconds", "How long ago what is being read was committed; while not streaming, for how long.")
	descReconnects    = desc("replication_reconnects_total", "Replication sessions that ended.")
	descRecreations   = desc("slot_recreations_total", "Slots made in place of another, by reason.", "reason")
	descSlotActive    = desc("slot_active", "1 while somebody streams from the slot.")
	descSlotStatus    = desc("slot_wal_status", "1 for the slot's wal_status.", "status")
	descSlotRetained  = desc("slot_retained_bytes", "Write-ahead log that the slot keeps on the server's disk.")
	descSlotSafe      = desc("slot_safe_wal_bytes", "What may still be written before the slot is lost; absent without a limit.")
	descCheckpointAge = desc("checkpoint_age_seconds", "Time since the checkpoint was last written; an idle relay writes none.")
	descCheckpointLag = desc("checkpoint_lag_bytes", "Read and counted, but not durable yet.")
	descDrift         = desc("state_count_drift", "By how much the last audit found the counts wrong; 0 is exact.")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descItems, descOldest, descAttention, descWindow, descPaused, descHeld, descReady, descLater, descSweeping, descStreaming,
		descLagBytes, descLagSeconds, descReconnects, descRecreations, descSlotActive, descSlotStatus, descSlotRetained, descSlotSafe,
		descCheckpointAge, descCheckpointLag, descDrift} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	s := c.relay.Status()
	for _, l := range s.Lanes {
		gauge(descOldest, l.OldestSeconds, l.Name)
		gauge(descAttention, float64(l.Attention), l.Name)
		gauge(descWindow, float64(l.Window), l.Name)
		for _, reason := range []string{pausedUnreachable, pausedUnauthorized, pausedRateLimited} {
			gauge(descPaused, flag(l.Paused == reason), l.Name, reason)
		}
		gauge(descHeld, float64(l.Held), l.Name)
		gauge(descReady, float64(l.Ready), l.Name)
		gauge(descLater, float64(l.Later), l.Name)
		gauge(descSweeping, flag(l.Sweeping), l.Name)
	}
	if s.Stream != nil {
		c.stream(s.Stream, gauge, counter)
	}
	gauge(descStreaming, flag(s.Stream != nil && s.Stream.Mode == replication.Streaming))
	if s.Checkpoint == nil || s.Stream == nil || s.Stream.Mode != replication.Streaming {
		return
	}
	for exporter, tally := range s.Checkpoint.Counts {
		for i, n := range tally {
			gauge(descItems, float64(n), exporter, string(machine.States[i]))
		}
	}
	gauge(descCheckpointAge, time.Since(s.Checkpoint.Written).Seconds())
	gauge(descCheckpointLag, float64(s.Checkpoint.At-s.Checkpoint.Confirmed))
	gauge(descDrift, float64(s.Checkpoint.Drift))
}

func (c *collector) stream(s *replication.Status, gauge, counter func(*prometheus.Desc, float64, ...string)) {
	gauge(descLagBytes, float64(s.LagBytes))
	gauge(descLagSeconds, s.LagSeconds)
	counter(descReconnects, float64(s.Reconnects))
	for _, reason := range replication.Reasons() { // also those that are zero: increase() doesn't see a first count
		counter(descRecreations, float64(s.Recreations[reason]), reason)
	}
	gauge(descSlotActive, flag(s.Slot.Active))
	if s.Slot.WALStatus != "" {
		gauge(descSlotStatus, 1, s.Slot.WALStatus)
	}
	gauge(descSlotRetained, float64(s.Slot.RetainedBytes))
	if s.Slot.SafeBytes != nil {
		gauge(descSlotSafe, float64(*s.Slot.SafeBytes))
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
