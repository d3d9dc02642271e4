package checkpoint

import (
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// Book keeps position and counts. It is the stream's Ledger, and listens to it as a Handler.
type Book struct {
	db  *pgxpool.Pool
	log *slog.Logger

	mu        sync.Mutex
	source    replication.Source
	at        replication.LSN // counts are those at this position
	counts    machine.Counts
	delta     machine.Counts  // of the open transaction
	deleted   int64           // rows that the open transaction deleted, less those it announced
	inexact   bool            // a deletion was not announced
	drift     int64           // what the last audit found
	confirmed replication.LSN // durable; what the server may be told
	written   time.Time       // when the row was last written; zero: not by this book
	trail     trail           // what audits compare with

	interval time.Duration // between two writes of the row

	auditing sync.Mutex    // one audit at a time: the second would correct what the first has
	due      chan struct{} // holds a token when the row should be written
}

// idleStep is how far the position may run ahead of the row while nothing is counted: one segment of the
// log. Writing more often would cost an idle relay statements, and each is itself written to the log.
const idleStep = 16 << 20

// NewBook makes an empty book; the stream fills it by Resume or Rebase.
func NewBook(db *pgxpool.Pool, log *slog.Logger) *Book {
	return &Book{
		db: db, log: log,
		counts: machine.Counts{}, delta: machine.Counts{},
		interval: interval,
		due:      make(chan struct{}, 1),
	}
}

// View is what a Book holds at one moment.
type View struct {
	Source    replication.Source
	At        replication.LSN // the position of Counts
	Confirmed replication.LSN // the durable position
	Counts    machine.Counts
	Inexact   bool      // a deletion was not announced: Counts may be too high
	Drift     int64     // what the last audit found; 0: exact, or none yet
	Written   time.Time // when the durable row was last written; zero: never by this book
}

// View copies what the book holds. ok is false before the first Resume or Rebase.
func (b *Book) View() (v View, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v = View{Source: b.source, At: b.at, Confirmed: b.confirmed, Counts: b.counts.Clone(), Inexact: b.inexact, Drift: b.drift, Written: b.written}
	return v, b.at != 0
}

// Confirmed implements replication.Ledger.
func (b *Book) Confirmed() replication.LSN {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.confirmed
}

// Started implements replication.Handler.
func (b *Book) Started() { b.reset() }

// Stopped implements replication.Handler. What the open transaction counted comes again.
func (b *Book) Stopped() { b.reset() }

// Begin implements replication.Handler.
func (b *Book) Begin(time.Time) { b.reset() }

func (b *Book) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	zero(b.delta)
	b.deleted = 0
}

// zero empties the tallies but keeps them, so that a transaction allocates nothing.
func zero(c machine.Counts) {
	for _, tally := range c {
		*tally = machine.Tally{}
	}
}

// Change implements replication.Handler.
func (b *Book) Change(c *replication.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch c.Kind {
	case replication.Insert:
		b.delta.Add(c.Exporter, c.State, 1)
	case replication.Update:
		b.delta.Add(c.Exporter, c.From, -1)
		b.delta.Add(c.Exporter, c.State, 1)
	case replication.Delete:
		b.deleted++
	case replication.Removed:
		b.delta.Add(c.Exporter, c.State, -c.Count)
		b.deleted -= c.Count
	case replication.Truncate:
		// Nothing of what the transaction did before, nor of what was there, is left.
		b.deleted = 0
		zero(b.delta)
		for exporter, tally := range b.counts {
			for i, n := range tally {
				b.delta.Add(exporter, machine.States[i], -n)
			}
		}
	}
}

// Commit implements replication.Handler: the transaction is counted, as a whole.
func (b *Book) Commit(end replication.LSN) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trail.before(end, b.counts)
	for exporter, tally := range b.delta {
		for i, n := range tally {
			if n != 0 {
				b.counts.Add(exporter, machine.States[i], n)
				b.trail.add(step{end, exporter, machine.States[i], n})
			}
		}
	}
	zero(b.delta)
	if b.deleted != 0 {
		b.inexact = true
		b.log.Warn("rows of weir.deliveries were deleted without an announcement: the state counts are inexact until they are counted anew; remove items with weir gc", "rows", b.deleted)
		b.deleted = 0
	}
	b.at = max(b.at, end)
	b.wake()
}

// Idle implements replication.Handler.
func (b *Book) Idle(at replication.LSN) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trail.before(at+1, b.counts)
	b.at = max(b.at, at)
	if b.at-b.confirmed >= idleStep {
		b.wake()
	}
}

// wake makes Run write the row. Called with mu held.
func (b *Book) wake() {
	select {
	case b.due <- struct{}{}:
	default:
	}
}
