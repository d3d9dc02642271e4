package replication

import (
	"context"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/weir-relay/weir/machine"
)

// LSN is a position in the write-ahead log: an unsigned 64-bit byte offset, printed as X/X.
type LSN = pglogrepl.LSN

// Kind says what a Change is.
type Kind uint8

// The kinds of changes of weir.deliveries.
const (
	Insert   Kind = iota + 1 // an item entered in State
	Update                   // an item went from From to State
	Delete                   // the row ID is gone; the stream doesn't say in which state it was
	Truncate                 // all rows are gone
	Removed                  // an announcement in the same transaction: Count rows of Exporter in State were deleted
)

// Change is one change of weir.deliveries, as the log tells it. It decides nothing: it only says where to look.
type Change struct {
	Kind           Kind
	ID             int64         // Insert, Update, Delete
	Exporter       string        // Insert, Update, Removed
	State          machine.State // Insert, Update, Removed
	From           machine.State // Update: what the transition left
	NextAttemptAt  time.Time     // Insert, Update: by the server's clock
	LeaseExpiresAt time.Time     // Insert, Update: by the server's clock; zero unless leased
	Count          int64         // Removed
}

// Handler is told what the stream reads, in the log's order, from the stream's own goroutine: it must
// return at once.
//
// A transaction is Begin, its Changes, Commit. When the connection is lost in between, Stopped follows
// instead of Commit, and the transaction comes again, whole, after the next Started.
type Handler interface {
	// Started says that the slot is held and the stream begins. What was committed before may have
	// been missed: sweep.
	Started()
	// Begin opens a transaction that committed at commit, by the server's clock.
	Begin(commit time.Time)
	// Change is one change of the open transaction. c is valid during the call only.
	Change(c *Change)
	// Commit closes the transaction, whose record ends at end.
	Commit(end LSN)
	// Idle says that no transaction is open and everything that ended before at has been handed over.
	Idle(at LSN)
	// Stopped says that no change will come until the next Started: poll.
	Stopped()
}

// Source names the log that positions refer to. A position means nothing in another one.
type Source struct {
	Slot     string
	SystemID string
	Timeline int32
}

// Ledger remembers up to where the log has been counted.
//
// Invariant: Confirmed <= what is durable in the ledger.
type Ledger interface {
	// Resume answers the position from which the stream of source goes on, 0 where the ledger has none for
	// this source: its counts have to be made anew.
	Resume(ctx context.Context, source Source) (LSN, error)
	// Rebase counts what is there at the exported snapshot of a new slot, whose stream begins at at, and
	// makes both durable.
	Rebase(ctx context.Context, source Source, at LSN, snapshot string) error
	// Confirmed is the position that the server may forget everything before. It never falls but by Rebase.
	Confirmed() LSN
}

// Flusher is a Ledger that can make everything that has been counted durable at once. It is asked to when
// the stream ends in order, so that nothing comes again after a clean restart.
type Flusher interface {
	Flush(ctx context.Context) error
}
