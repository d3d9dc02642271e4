package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

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

// ErrInterrupted says that the book began to count anew during an audit, which then says nothing about its
// counts: the stream reconnected, the table was truncated, or the audit took too long. Audit again. Test
// with errors.Is.
var ErrInterrupted = errors.New("checkpoint: audit: the counts began anew meanwhile: audit again")

// Audit counts the table as of one position in the log, waits until the stream has come there, and compares.
// Where they differ, the book is corrected by the difference, which is the same at every later position.
//
// url is that of a replication connection: the position and the snapshot come from a temporary slot, which
// is gone when Audit returns. Creating it waits for the transactions that run at that moment. A TRUNCATE that
// commits while the audit runs shows as drift: it empties the table for older snapshots too. The counts are
// right again once the stream has read it.
//
// Errors: ErrNotStreaming, once ctx has ended; ErrInterrupted; whatever the database answers.
func (b *Book) Audit(ctx context.Context, url string) (Finding, error) {
	if err := b.auditing.take(ctx); err != nil {
		return Finding{}, fmt.Errorf("checkpoint: audit: wait for the one before: %w", err)
	}
	defer b.auditing.pass()
	stop, ok := b.record()
	if !ok {
		return Finding{}, ErrNotStreaming
	}
	defer stop()
	c, err := b.census(ctx, url)
	if err != nil {
		return Finding{}, fmt.Errorf("checkpoint: audit: %w", err)
	}
	select {
	case <-ctx.Done():
		return Finding{}, fmt.Errorf("%w (%w)", ErrNotStreaming, context.Cause(ctx))
	case kept, ok := <-c.kept:
		if !ok {
			return Finding{}, ErrInterrupted
		}
		f := Finding{At: c.at, Real: c.real, Kept: kept, Drift: drift(c.real, kept)}
		if !b.correct(f, c.epoch) {
			return Finding{}, ErrInterrupted
		}
		return f, nil
	}
}

// census is the table as of a position, and the book's answer for there once the stream has reached it.
type census struct {
	at    replication.LSN
	real  machine.Counts
	kept  <-chan machine.Counts
	epoch int // in which kept is an answer
}

// census counts the table.
//
// THE ORDER: slot, question, count. The stream goes on meanwhile, and its trail has an end.
func (b *Book) census(ctx context.Context, url string) (c census, err error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return c, fmt.Errorf("connect: %w", err)
	}
	name := "weir_audit_" + strings.ToLower(rand.Text()[:12])
	defer release(conn, name)
	slot, err := pglogrepl.CreateReplicationSlot(ctx, conn, name, "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: true, Mode: pglogrepl.LogicalReplication, SnapshotAction: "EXPORT_SNAPSHOT"})
	if err != nil {
		return c, fmt.Errorf("create temporary slot: %w", err)
	}
	if c.at, err = pglogrepl.ParseLSN(slot.ConsistentPoint); err != nil {
		return c, fmt.Errorf("create temporary slot: %w", err)
	}
	c.kept, c.epoch = b.mark(c.at)
	if c.real, err = b.count(ctx, slot.SnapshotName); err != nil {
		return c, fmt.Errorf("count: %w", err)
	}
	return c, nil
}

// record keeps a trail from now until stop is called. ok is false where the book has no position yet.
func (b *Book) record() (stop func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == 0 {
		return nil, false
	}
	b.trail.audits++
	b.trail.cut(b.at)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.trail.audits--
		b.trail.cut(b.at)
	}, true
}

// mark asks for the counts at a position.
func (b *Book) mark(at replication.LSN) (kept <-chan machine.Counts, epoch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trail.ask(at, b.at, b.counts), b.epoch
}

// correct adds the difference that the audit found, unless the counts have begun anew since.
func (b *Book) correct(f Finding, epoch int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.epoch != epoch {
		return false
	}
	b.drift = f.Drift
	if b.inexact != 0 && b.inexact <= f.At {
		b.inexact, b.amended = 0, true
	}
	for exporter := range union(f.Real, f.Kept) {
		for _, state := range machine.States {
			if d := f.Real.Get(exporter, state) - f.Kept.Get(exporter, state); d != 0 {
				b.counts.Add(exporter, state, d)
				b.amended = true
			}
		}
	}
	if b.amended {
		b.wake()
	}
	return true
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

// connect opens a replication connection for one command, which may wait for hours.
func connect(ctx context.Context, url string) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["replication"] = "database"
	config.RuntimeParams["statement_timeout"] = "0"
	config.RuntimeParams["lock_timeout"] = "0"
	config.RuntimeParams["idle_in_transaction_session_timeout"] = "0" // an exported snapshot is an open transaction
	// A server that waits for transactions doesn't notice that its client is gone: it is told to stop.
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: goodbye}
	}
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	return pgconn.ConnectConfig(ctx, config)
}

// goodbye bounds the end of a connection.
const goodbye = 5 * time.Second

// release drops the temporary slot and hangs up. Without the first the server would drop it too, but some
// time after this has returned.
func release(conn *pgconn.PgConn, slot string) {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	_ = pglogrepl.DropReplicationSlot(ctx, conn, slot, pglogrepl.DropReplicationSlotOptions{})
	_ = conn.Close(ctx)
}
