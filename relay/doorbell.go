package relay

import (
	"sync/atomic"
	"time"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// leaseSlack is added to a lease's end before anybody looks whether it was abandoned: the claim demands
// that it is over.
const leaseSlack = 5 * time.Millisecond

// doorbell is the stream's Handler for the lanes: it turns each change into "look here", now or at a time.
//
// Times in the log are the server's. A delay is taken from them by subtracting the commit's time, which is
// the server's too, and starts when the change arrives: the hosts' clocks need not agree.
type doorbell struct {
	lanes   map[string]*Lane
	metrics *metrics
	commit  time.Time   // of the open transaction, by the server's clock
	arrived time.Time   // of the open transaction, by this host's
	rung    atomic.Bool // the stream has started once; never unset
}

// Started implements replication.Handler: what was committed before may have been missed.
func (d *doorbell) Started() {
	d.rung.Store(true)
	for _, l := range d.lanes {
		l.streaming.Store(true)
		l.agenda.sweep()
	}
}

// Stopped implements replication.Handler: the relay's ticker polls from now on.
func (d *doorbell) Stopped() {
	for _, l := range d.lanes {
		l.streaming.Store(false)
	}
}

// Begin implements replication.Handler.
func (d *doorbell) Begin(commit time.Time) { d.commit, d.arrived = commit, time.Now() }

// Change implements replication.Handler.
func (d *doorbell) Change(c *replication.Change) {
	switch c.Kind {
	case replication.Delete:
		for _, l := range d.lanes {
			l.agenda.forget(c.ID)
		}
		return
	case replication.Truncate:
		for _, l := range d.lanes {
			l.agenda.clear()
		}
		return
	}
	if c.Kind != replication.Insert && c.Kind != replication.Update {
		return
	}
	l := d.lanes[c.Exporter]
	if l == nil {
		return // another relay's lane
	}
	switch c.State {
	case machine.Pending:
		delay := c.NextAttemptAt.Sub(d.commit)
		if c.Kind == replication.Insert || delay <= 0 {
			d.metrics.wakes.WithLabelValues(wakeSource(c.Kind)).Inc()
			l.agenda.now(wake{id: c.ID, commit: d.commit})
		} else {
			l.agenda.at(c.ID, d.arrived.Add(delay))
		}
	case machine.Leased:
		l.agenda.at(c.ID, d.arrived.Add(c.LeaseExpiresAt.Sub(d.commit)+leaseSlack))
	default:
		l.agenda.forget(c.ID)
		if l.ordered() && c.From != machine.Leased {
			// A person moved it: its line may go on, and nobody's settle rings for the next.
			l.agenda.sweep()
		}
	}
}

func wakeSource(k replication.Kind) string {
	if k == replication.Insert {
		return "insert"
	}
	return "update"
}

// Commit implements replication.Handler.
func (d *doorbell) Commit(replication.LSN) {}

// Idle implements replication.Handler.
func (d *doorbell) Idle(replication.LSN) {}

// handlers tells several what the stream tells one, in order.
type handlers []replication.Handler

func (h handlers) Started() {
	for _, next := range h {
		next.Started()
	}
}

func (h handlers) Stopped() {
	for _, next := range h {
		next.Stopped()
	}
}

func (h handlers) Begin(commit time.Time) {
	for _, next := range h {
		next.Begin(commit)
	}
}

func (h handlers) Change(c *replication.Change) {
	for _, next := range h {
		next.Change(c)
	}
}

func (h handlers) Commit(end replication.LSN) {
	for _, next := range h {
		next.Commit(end)
	}
}

func (h handlers) Idle(at replication.LSN) {
	for _, next := range h {
		next.Idle(at)
	}
}
