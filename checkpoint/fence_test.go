package checkpoint

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

var source = replication.Source{Slot: "weir", SystemID: "7", Timeline: 1}

// resumed is a book at a row that says: at, one pending item.
func (r *rig) resumed(source replication.Source, at replication.LSN) *Book {
	r.t.Helper()
	r.exec(`
INSERT INTO weir.checkpoints (slot, system_identifier, timeline, lsn, counts)
VALUES ($1, $2, $3, $4::text::pg_lsn, '{"stripe": {"pending": 1}}') ON CONFLICT DO NOTHING`,
		source.Slot, source.SystemID, source.Timeline, at.String())
	b := r.idle()
	if got, err := b.Resume(r.t.Context(), source); got != at || err != nil {
		r.t.Fatalf("resume: %v, %v; want %v", got, err, at)
	}
	return b
}

// idle is a book without a stream.
func (r *rig) idle() *Book { return NewBook(r.pool, r.logger()) }

// commit tells a book of one transaction.
func commit(b *Book, end replication.LSN, changes ...replication.Change) {
	b.Begin(time.Time{})
	for i := range changes {
		b.Change(&changes[i])
	}
	b.Commit(end)
}

var insert = replication.Change{Kind: replication.Insert, Exporter: "stripe", State: machine.Pending}

func pending(b *Book) int64 {
	v, _ := b.View()
	return v.Counts.Get("stripe", machine.Pending)
}

// Of two books of one slot, the one behind changes nothing, and confirms nothing.
func TestAnOlderBookDoesNotOverwriteANewerRow(t *testing.T) {
	r := setUp(t)
	older, newer := r.resumed(source, 100), r.resumed(source, 100)
	commit(older, 200, insert)
	commit(newer, 200, insert)
	commit(newer, 300, insert)
	if err := newer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := older.Flush(t.Context()); !errors.Is(err, ErrSuperseded) {
		t.Errorf("flush of the older: %v", err)
	}
	if got := older.Confirmed(); got != 100 {
		t.Errorf("the older confirms %v", got)
	}
	r.slot = source.Slot
	if row := r.row(); row.At != 300 || row.Counts.Get("stripe", machine.Pending) != 3 {
		t.Errorf("row: %+v", row)
	}
	commit(older, 300, insert)
	commit(older, 400, insert)
	if err := older.Flush(t.Context()); err != nil {
		t.Errorf("flush, once it is ahead: %v", err)
	}
}

// A row of another log has no position here, and a book of another log doesn't touch it.
func TestAnotherLog(t *testing.T) {
	for name, other := range map[string]replication.Source{
		"slot":     {Slot: "other", SystemID: "7", Timeline: 1},
		"system":   {Slot: "weir", SystemID: "8", Timeline: 1},
		"timeline": {Slot: "weir", SystemID: "7", Timeline: 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := setUp(t)
			b := r.resumed(source, 100)
			if at, err := r.idle().Resume(t.Context(), other); at != 0 || err != nil {
				t.Errorf("resume: %v, %v", at, err)
			}
			if other.Slot != source.Slot {
				return
			}
			r.exec(`UPDATE weir.checkpoints SET system_identifier = $1, timeline = $2`, other.SystemID, other.Timeline)
			commit(b, 200, insert)
			if err := b.Flush(t.Context()); !errors.Is(err, ErrSuperseded) {
				t.Errorf("flush: %v", err)
			}
			if got := b.Confirmed(); got != 100 {
				t.Errorf("confirms %v", got)
			}
		})
	}
}

// A superseded book asks no more of the database than it reads commits: a relay that stands by is silent.
func TestSupersededIsNotRepeated(t *testing.T) {
	r := setUp(t)
	b := r.resumed(source, 100)
	b.interval = time.Millisecond
	r.exec(`UPDATE weir.checkpoints SET lsn = '0/FFFF'`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	commit(b, 200, insert)
	r.eventually(func() error { return r.logged("belongs to another slot now", 1) })
	wait(t, 100*time.Millisecond)
	if err := r.logged("belongs to another slot now", 1); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Another relay makes a new slot under a running one: the row begins anew, exactly, and goes on.
func TestRowOfAnotherLogIsCountedAnew(t *testing.T) {
	for name, sql := range map[string]string{
		"deleted":  `DELETE FROM weir.checkpoints`,
		"system":   `UPDATE weir.checkpoints SET system_identifier = '1', counts = '{"x": {"pending": 5}}'`,
		"timeline": `UPDATE weir.checkpoints SET timeline = 9, counts = '{"x": {"pending": 5}}'`,
		"behind":   `SELECT pg_replication_slot_advance((SELECT slot FROM weir.checkpoints), pg_current_wal_lsn())`, // lesson 22
		"no slot":  `SELECT pg_drop_replication_slot((SELECT slot FROM weir.checkpoints))`,
	} {
		t.Run(name, func(t *testing.T) {
			r := setUp(t)
			r.start().streaming()
			r.insert("stripe", "a", 10)
			r.durable()
			r.stop()
			r.insert("webhook", "b", 5)
			r.exec(sql)
			r.start().streaming()
			r.insert("stripe", "c", 3)
			r.counted()
			r.durable()
			if got := r.row().Source; got.Slot != r.slot || got.Timeline != 1 || got.SystemID == "1" {
				t.Errorf("the row is of %+v", got)
			}
		})
	}
}

// Two writes never overtake each other: the second waits for the first, and its context still ends it.
func TestOneWriteAtATime(t *testing.T) {
	r := setUp(t)
	b := r.resumed(source, 100)
	lock := r.begin()
	if _, err := lock.Exec(t.Context(), `LOCK TABLE weir.checkpoints`); err != nil {
		t.Fatal(err)
	}
	commit(b, 200, insert)
	first := make(chan error, 1)
	go func() { first <- b.Flush(t.Context()) }()
	r.eventually(func() error { return r.blocked(1) })
	commit(b, 300, insert)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush meanwhile: %v", err)
	}
	second := make(chan error, 1)
	go func() { second <- b.Flush(t.Context()) }()
	if b.Confirmed() != 100 {
		t.Errorf("confirmed is %v before the row is written", b.Confirmed())
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, done := range []chan error{first, second} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if b.Confirmed() != 300 {
		t.Errorf("confirmed is %v at the end", b.Confirmed())
	}
}
