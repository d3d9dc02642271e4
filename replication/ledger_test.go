package replication

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/machine"
)

// memory is a ledger without a table: it counts changes like a real one and says what would be durable.
type memory struct {
	url    string // where Rebase counts
	during string // a statement that Rebase runs first

	mu      sync.Mutex
	source  Source
	durable LSN            // 0: no position
	seen    LSN            // counted up to here
	counts  machine.Counts // at seen
	manual  bool           // durable moves with Flush only
	rebased []LSN
	flushes int
	fail    error // what Rebase answers
}

func (m *memory) Resume(_ context.Context, source Source) (LSN, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if source != m.source {
		return 0, nil
	}
	return m.durable, nil
}

func (m *memory) Rebase(ctx context.Context, source Source, at LSN, snapshot string) error {
	counts, err := countAt(ctx, m.url, snapshot, m.during)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.source, m.durable, m.seen, m.counts = source, at, at, counts
	m.rebased = append(m.rebased, at)
	return nil
}

func (m *memory) Confirmed() LSN {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.durable
}

func (m *memory) Flush(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flushes++
	m.durable = m.seen
	return nil
}

func (m *memory) advance(at LSN, changes []Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		switch c.Kind {
		case Insert:
			m.counts.Add(c.Exporter, c.State, 1)
		case Update:
			m.counts.Add(c.Exporter, c.From, -1)
			m.counts.Add(c.Exporter, c.State, 1)
		case Removed:
			m.counts.Add(c.Exporter, c.State, -c.Count)
		case Truncate:
			clear(m.counts)
		}
	}
	m.seen = max(m.seen, at)
	if !m.manual {
		m.durable = m.seen
	}
}

// keep says whether positions become durable with Flush only.
func (m *memory) keep(manual bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.manual = manual
}

// rebases is how often it counted anew.
func (m *memory) rebases() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rebased)
}

func (m *memory) tally() machine.Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts.Clone()
}

// countAt counts the items of every exporter and state, at an exported snapshot unless that is "".
func countAt(ctx context.Context, url, snapshot, during string) (machine.Counts, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if snapshot != "" {
		if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+snapshot+"'"); err != nil {
			return nil, err
		}
	}
	if _, err := tx.Exec(ctx, during); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT exporter, state, count(*) FROM weir.deliveries GROUP BY 1, 2`)
	if err != nil {
		return nil, err
	}
	counts := machine.Counts{}
	var exporter, state string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&exporter, &state, &n}, func() error {
		counts.Add(exporter, machine.State(state), n)
		return nil
	})
	return counts, err
}

// transcript is a handler that writes down what it is told, and tells a ledger.
type transcript struct {
	ledger *memory
	slow   func() // called at every change

	mu      sync.Mutex
	lines   []string
	open    []Change // of the transaction in hand; the stream's goroutine only
	quiet   bool     // writes down no changes, and keeps none
	changes int
	last    Change
	idle    LSN
	end     LSN
}

func (l *transcript) write(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *transcript) Started() { l.write("started") }
func (l *transcript) Stopped() {
	l.write("stopped")
	l.open = nil
}

func (l *transcript) Change(c *Change) {
	if l.slow != nil {
		l.slow()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.last = *c
	if l.quiet {
		return
	}
	l.open = append(l.open, *c)
	switch c.Kind {
	case Insert:
		l.lines = append(l.lines, fmt.Sprintf("  insert %s %s", c.Exporter, c.State))
	case Update:
		l.lines = append(l.lines, fmt.Sprintf("  update %s %s>%s lease=%v", c.Exporter, c.From, c.State, !c.LeaseExpiresAt.IsZero()))
	case Delete:
		l.lines = append(l.lines, "  delete")
	case Truncate:
		l.lines = append(l.lines, "  truncate")
	case Removed:
		l.lines = append(l.lines, fmt.Sprintf("  removed %s %s %d", c.Exporter, c.State, c.Count))
	}
}

// Begin writes nothing: transactions of others are empty, and not all servers leave them out.
func (l *transcript) Begin(commit time.Time) { l.open = l.open[:0] }

func (l *transcript) Commit(end LSN) {
	if len(l.open) > 0 {
		l.write("commit")
	}
	l.mu.Lock()
	l.end = end
	l.mu.Unlock()
	l.ledger.advance(end, l.open)
}

func (l *transcript) Idle(at LSN) {
	l.mu.Lock()
	l.idle = at
	l.mu.Unlock()
	l.ledger.advance(at, nil)
}

func (l *transcript) copy() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func (l *transcript) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}
