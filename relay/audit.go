package relay

import (
	"context"
	"errors"
	"time"

	"github.com/weir-relay/weir/checkpoint"
)

// auditWait bounds one audit: it waits for the transactions that run when it starts.
const auditWait = 10 * time.Minute

// Audit counts the table as of one position in the log, and compares with the counts that the stream has
// kept there. Only the relay that streams can do it. The state gauges are corrected by what it finds.
func (r *Relay) Audit(ctx context.Context) (checkpoint.Finding, error) {
	if r.stream == nil {
		return checkpoint.Finding{}, errors.New("relay: there is no stream, so no counts are kept that could be audited")
	}
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	return r.book.Audit(ctx, r.config.Replication.URL)
}

// auditor audits every AuditInterval, and soon after the counts have become inexact.
func (r *Relay) auditor(ctx context.Context) {
	const look = time.Minute
	next := time.Now().Add(r.config.AuditInterval)
	for {
		if wait(ctx, look); ctx.Err() != nil {
			return
		}
		view, ok := r.book.View()
		if !ok || r.streaming() != nil || !view.Inexact && time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(r.config.AuditInterval)
		f, err := r.Audit(ctx)
		switch {
		case errors.Is(err, checkpoint.ErrInterrupted):
			next = time.Now()
		case err != nil:
			r.log.Warn("the state counts were not audited; weir tries again later", "error", err)
		case f.Drift != 0:
			r.log.Error("the state counts were wrong and are corrected", "drift", f.Drift, "at", f.At, "real", f.Real.Nested(), "kept", f.Kept.Nested())
		default:
			r.log.Info("the state counts are exact", "at", f.At)
		}
	}
}
