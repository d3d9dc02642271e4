package checkpoint

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// A book with 10 pending and 5 leased is told one transaction.
func TestTransactions(t *testing.T) {
	var (
		truncate = replication.Change{Kind: replication.Truncate}
		deletion = replication.Change{Kind: replication.Delete}
		removed  = replication.Change{Kind: replication.Removed, Exporter: "stripe", State: machine.Pending, Count: 2}
		claim    = replication.Change{Kind: replication.Update, Exporter: "stripe", From: machine.Pending, State: machine.Leased}
		renew    = replication.Change{Kind: replication.Update, Exporter: "stripe", From: machine.Leased, State: machine.Leased}
		blind    = replication.Change{Kind: replication.Update, Exporter: "stripe", State: machine.Leased}
	)
	type changes = []replication.Change
	for _, c := range []struct {
		name            string
		changes         changes
		pending, leased int64
		inexact         bool
	}{
		{"nothing", nil, 10, 5, false},
		{"insert", changes{insert}, 11, 5, false},
		{"claim", changes{claim}, 9, 6, false},
		{"claim again after expiry", changes{renew}, 10, 5, false},
		{"insert and claim", changes{insert, claim}, 10, 6, false},
		{"announced before", changes{removed, deletion, deletion}, 8, 5, false},
		{"announced after", changes{deletion, deletion, removed}, 8, 5, false},
		{"not announced", changes{deletion}, 10, 5, true},
		{"announced too many", changes{removed, deletion}, 8, 5, true},
		{"update without from_state", changes{blind}, 10, 5, true},
		{"truncate", changes{truncate}, 0, 0, false},
		{"truncate after changes", changes{insert, claim, deletion, blind, removed, truncate}, 0, 0, false},
		{"truncate between changes", changes{insert, claim, truncate, insert, insert, claim}, 1, 1, false},
		{"truncate twice", changes{insert, truncate, insert, truncate, insert}, 1, 0, false},
		{"truncate, then delete", changes{truncate, insert, deletion}, 1, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begun()
			commit(b, 200, c.changes...)
			v, _ := b.View()
			if got := v.Counts.Get("stripe", machine.Pending); got != c.pending {
				t.Errorf("pending %d, want %d", got, c.pending)
			}
			if got := v.Counts.Get("stripe", machine.Leased); got != c.leased {
				t.Errorf("leased %d, want %d", got, c.leased)
			}
			if v.Inexact != c.inexact || v.At != 200 || v.Confirmed != 100 {
				t.Errorf("inexact %v, at %v, confirmed %v", v.Inexact, v.At, v.Confirmed)
			}
			commit(b, 300, insert)
			if got := pending(b); got != c.pending+1 {
				t.Errorf("the transaction after it makes pending %d, want %d", got, c.pending+1)
			}
		})
	}
}

// What was read of a transaction before the connection was lost comes again, and counts once (lesson 8).
func TestHalfATransaction(t *testing.T) {
	b := begun()
	b.Begin(time.Time{})
	b.Change(&replication.Change{Kind: replication.Truncate})
	b.Change(&insert)
	if v, _ := b.View(); v.At != 100 || pending(b) != 10 {
		t.Errorf("an open transaction counts already: %+v", v)
	}
	b.Stopped()
	b.Started()
	commit(b, 200, insert)
	if got := pending(b); got != 11 {
		t.Errorf("pending %d, want 11", got)
	}
}

// The position doesn't fall, and a step of the idle position is due from idleStep on, whichever is ahead.
func TestIdlePosition(t *testing.T) {
	b := begun()
	due := func() bool {
		select {
		case <-b.due:
			return true
		default:
			return false
		}
	}
	for _, c := range []struct {
		at, confirmed, want replication.LSN
		due                 bool
	}{
		{100, 100, 100, false},
		{90, 100, 100, false},
		{100, 500, 100, false}, // a write that came in after the book had gone back to the row before
		{100 + idleStep - 1, 100, 100 + idleStep - 1, false},
		{100 + idleStep, 100, 100 + idleStep, true},
	} {
		b.confirmed = c.confirmed
		b.Idle(c.at)
		if got := due(); b.at != c.want || got != c.due {
			t.Errorf("idle at %v: at %v, due %v; want %v, %v", c.at, b.at, got, c.want, c.due)
		}
	}
}

// A truncation makes right what was wrong before.
func TestTruncateIsExact(t *testing.T) {
	b := begun()
	commit(b, 200, replication.Change{Kind: replication.Delete})
	epoch := b.epoch
	commit(b, 300, replication.Change{Kind: replication.Truncate})
	if v, _ := b.View(); v.Inexact {
		t.Error("inexact")
	}
	real := machine.Counts{}
	real.Add("stripe", machine.Pending, 9)
	if b.correct(Finding{At: 250, Real: real, Kept: machine.Counts{}}, epoch); pending(b) != 0 {
		t.Errorf("an audit from before has corrected it: %d", pending(b))
	}
}

// begun is a book of 10 pending and 5 leased items at 100.
func begun() *Book {
	b := NewBook(nil, slog.New(slog.DiscardHandler))
	counts := machine.Counts{}
	counts.Add("stripe", machine.Pending, 10)
	counts.Add("stripe", machine.Leased, 5)
	b.take(View{Source: source, At: 100, Counts: counts})
	return b
}

// In the steady state a change allocates nothing.
func TestChangesDoNotAllocate(t *testing.T) {
	b := begun()
	end := replication.LSN(200)
	change := replication.Change{Kind: replication.Update, Exporter: "stripe", From: machine.Leased, State: machine.Leased}
	transaction := func() {
		end++
		b.Begin(time.Time{})
		for range 10 {
			b.Change(&change)
		}
		b.Commit(end)
		b.Idle(end)
	}
	if n := testing.AllocsPerRun(1000, transaction); n != 0 {
		t.Errorf("%v allocations in a transaction of 10 changes", n)
	}
}

func BenchmarkBook(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"one change", 1}, {"100 changes", 100}} {
		b.Run(size.name, func(b *testing.B) {
			book := begun()
			change := replication.Change{Kind: replication.Update, Exporter: "stripe", From: machine.Pending, State: machine.Leased}
			end := replication.LSN(200)
			b.ReportAllocs()
			for b.Loop() {
				end++
				book.Begin(time.Time{})
				for range size.n {
					book.Change(&change)
				}
				book.Commit(end)
			}
		})
	}
}
