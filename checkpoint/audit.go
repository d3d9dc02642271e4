package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// Finding is what an audit found.
type Finding struct {
	At    replication.LSN
	Real  machine.Counts // counted in the table, as of At
	Kept  machine.Counts // kept by the book, as of At
	Drift int64          // items that stand in another state than the book says, or that it misses or has too many; 0 is exact
}

// ErrNotStreaming says that the book's position doesn't move, so that there is nothing to compare with.
// Test with errors.Is.
var ErrNotStreaming = errors.New("checkpoint: audit: the stream didn't reach the audit's position: is this relay the one that streams?")

// Audit counts the table as of one position in the log, waits until the stream has come there, and compares.
// Where they differ, the book is corrected by the difference, which is the same at every later position.
//
// url is that of a replication connection: the position and the snapshot come from a temporary slot, which
// is gone when Audit returns. Creating it waits for the transactions that run at that moment.
func (b *Book) Audit(ctx context.Context, url string) (Finding, error) {
	b.auditing.Lock()
	defer b.auditing.Unlock()
	stop := b.record()
	defer stop()
	conn, err := connect(ctx, url)
	if err != nil {
		return Finding{}, fmt.Errorf("checkpoint: audit: connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	slot, err := pglogrepl.CreateReplicationSlot(ctx, conn, "weir_audit_"+rand.Text()[:12], "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: true, Mode: pglogrepl.LogicalReplication, SnapshotAction: "EXPORT_SNAPSHOT"})
	if err != nil {
		return Finding{}, fmt.Errorf("checkpoint: audit: create temporary slot: %w", err)
	}
	at, err := pglogrepl.ParseLSN(slot.ConsistentPoint)
	if err != nil {
		return Finding{}, fmt.Errorf("checkpoint: audit: %w", err)
	}
	answer := b.mark(at)
	real, err := b.count(ctx, slot.SnapshotName)
	if err != nil {
		return Finding{}, fmt.Errorf("checkpoint: audit: count: %w", err)
	}
	select {
	case <-ctx.Done():
		return Finding{}, fmt.Errorf("%w (%w)", ErrNotStreaming, ctx.Err())
	case kept, ok := <-answer:
		if !ok {
			return Finding{}, ErrNotStreaming
		}
		f := Finding{At: at, Real: real, Kept: kept, Drift: drift(real, kept)}
		b.correct(f)
		return f, nil
	}
}

// record keeps a trail from now until stop is called.
func (b *Book) record() (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trail.audits++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.trail.audits--
		b.trail.cut(b.at)
	}
}

// mark asks for the counts at a position.
func (b *Book) mark(at replication.LSN) <-chan machine.Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trail.ask(at, b.at, b.counts)
}

// correct adds the difference that the audit found.
func (b *Book) correct(f Finding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inexact, b.drift = false, f.Drift
	if f.Drift == 0 {
		return
	}
	for exporter := range union(f.Real, f.Kept) {
		for _, state := range machine.States {
			b.counts.Add(exporter, state, f.Real.Get(exporter, state)-f.Kept.Get(exporter, state))
		}
	}
	b.wake()
}

// drift sums how far the counts are apart.
func drift(a, b machine.Counts) (n int64) {
	for exporter := range union(a, b) {
		for _, state := range machine.States {
			d := a.Get(exporter, state) - b.Get(exporter, state)
			n += max(d, -d)
		}
	}
	return n
}

func union(a, b machine.Counts) map[string]bool {
	all := map[string]bool{}
	for exporter := range a {
		all[exporter] = true
	}
	for exporter := range b {
		all[exporter] = true
	}
	return all
}

func connect(ctx context.Context, url string) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["replication"] = "database"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return pgconn.ConnectConfig(ctx, config)
}
