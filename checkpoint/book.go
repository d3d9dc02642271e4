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
	open      transaction
	inexact   replication.LSN // the last transaction that changed rows unaccountably; 0: none
	drift     int64           // what the last audit found
	confirmed replication.LSN // durable; what the server may be told
	amended   bool            // an audit has corrected the counts, and the row doesn't have it yet
	written   time.Time       // when the row was last written, or taken up; zero: neither yet
	trail     trail           // what audits compare with
	epoch     int             // rises when the counts begin anew: an older finding says nothing about them

	interval time.Duration // between two writes of the row
	auditing turn          // one audit at a time: the second would correct what the first has
	writing  turn          // one write at a time: two could overtake each other
	due      chan struct{} // holds a token when the row should be written
}

// transaction is what the one that is being read has changed so far.
type transaction struct {
	truncated bool           // first of all, nothing was left
	delta     machine.Counts // since then
	deleted   int64          // rows deleted, less those announced
	unknown   int64          // rows updated without saying which state they left
}

// reset begins a new one. It keeps the tallies, so that a transaction allocates nothing.
func (t *transaction) reset() {
	for _, tally := range t.delta {
		*tally = machine.Tally{}
	}
	t.truncated, t.deleted, t.unknown = false, 0, 0
}

// idleStep is how far the position may run ahead of the row while nothing is counted: one segment of the
// log. Writing more often would cost an idle relay statements, and each is itself written to the log.
const idleStep = 16 << 20

// NewBook makes an empty book; the stream fills it by Resume or Rebase.
func NewBook(db *pgxpool.Pool, log *slog.Logger) *Book {
	return &Book{
		db: db, log: log,
		counts: machine.Counts{}, open: transaction{delta: machine.Counts{}},
		trail:    trail{limit: trailLength},
		interval: interval, auditing: make(turn, 1), writing: make(turn, 1),
		due: make(chan struct{}, 1),
	}
}

// View is what a Book holds at one moment.
type View struct {
	Source    replication.Source
	At        replication.LSN // the position of Counts
	Confirmed replication.LSN // the durable position
	Counts    machine.Counts
	Inexact   bool      // rows were changed unaccountably: Counts may be wrong
	Drift     int64     // what the last audit found; 0: exact, or none yet
	Written   time.Time // when the durable row was last written, or taken up; zero: neither yet
}

// View copies what the book holds. ok is false before the first Resume or Rebase.
func (b *Book) View() (v View, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v = View{Source: b.source, At: b.at, Confirmed: b.confirmed, Counts: b.counts.Clone(), Inexact: b.inexact != 0, Drift: b.drift, Written: b.written}
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
	b.open.reset()
}

// Change implements replication.Handler.
func (b *Book) Change(c *replication.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.open
	switch c.Kind {
	case replication.Insert:
		t.delta.Add(c.Exporter, c.State, 1)
	case replication.Update:
		if c.From == machine.None {
			t.unknown++
			return
		}
		t.delta.Add(c.Exporter, c.From, -1)
		t.delta.Add(c.Exporter, c.State, 1)
	case replication.Delete:
		t.deleted++
	case replication.Removed:
		t.delta.Add(c.Exporter, c.State, -c.Count)
		t.deleted -= c.Count
	case replication.Truncate:
		t.reset() // of what the transaction did before, nothing is left either
		t.truncated = true
	}
}

// Commit implements replication.Handler: the transaction is counted, as a whole.
func (b *Book) Commit(end replication.LSN) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trail.before(end, b.counts)
	t := &b.open
	if t.truncated {
		b.truncate()
	}
	for exporter, tally := range t.delta {
		for i, n := range tally {
			if n != 0 {
				b.counts.Add(exporter, machine.States[i], n)
				b.trail.add(step{end, exporter, machine.States[i], n})
			}
		}
	}
	if t.deleted != 0 || t.unknown != 0 {
		b.inexact = end
		b.log.Warn("rows of weir.deliveries were deleted without an announcement, or updated without from_state: the state counts are inexact until an audit; remove items with weir gc",
			"deleted", t.deleted, "updated", t.unknown)
	}
	t.reset()
	b.at = max(b.at, end)
	b.wake()
}

// truncate takes back all that is counted. What was wrong before is right then. Called with mu held.
func (b *Book) truncate() {
	for exporter, tally := range b.counts {
		for i, n := range tally {
			b.open.delta.Add(exporter, machine.States[i], -n)
		}
	}
	b.inexact = 0
	b.epoch++
}

// Idle implements replication.Handler.
func (b *Book) Idle(at replication.LSN) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trail.before(at+1, b.counts)
	b.at = max(b.at, at)
	if b.at >= b.confirmed+idleStep {
		b.wake()
	}
}

// wake makes Run write the row.
func (b *Book) wake() {
	select {
	case b.due <- struct{}{}:
	default:
	}
}
