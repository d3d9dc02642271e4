package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// temporary demands that so many temporary slots are there.
func (r *rig) temporary(want int) error {
	var got int
	err := r.pool.QueryRow(r.t.Context(), `
SELECT count(*) FROM pg_replication_slots WHERE temporary AND database = current_database()`).Scan(&got)
	if err == nil && got != want {
		err = fmt.Errorf("%d temporary slots, want %d", got, want)
	}
	return err
}

// audit demands an audit that finds the drift, and leaves no slot.
func (r *rig) audit(drift int64) Finding {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	f, err := r.book.Audit(ctx, r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	if f.Drift != drift {
		r.t.Errorf("drift is %d at %v, want %d: real %v, kept %v", f.Drift, f.At, drift, f.Real.Nested(), f.Kept.Nested())
	}
	if err := r.temporary(0); err != nil {
		r.t.Error(err)
	}
	return f
}

// With items moving all the while, every audit finds nothing.
func TestAuditUnderLoad(t *testing.T) {
	for _, seed := range seeds(t) {
		r := setUp(t)
		w := watch(t, r.url, r.slot)
		r.start().streaming()
		s := sample(t, r.pool, r.slot)
		stop := traffic(t, r.pool, seed, 3, false)
		for range 40 {
			f := r.audit(0)
			s.agree(w, f.At, f.Real)
		}
		stop()
		r.counted()
		s.verify(w, 20)
	}
}

// Reconnects and truncations interrupt audits, and never make one find what isn't there.
func TestAuditOfCountsThatBeginAnew(t *testing.T) {
	r := setUp(t)
	r.start().streaming()
	stop := traffic(t, r.pool, 5, 2, true)
	interrupted := 0
	for n := range 40 {
		if n%3 == 0 {
			r.exec(`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1`, r.slot)
		}
		f, err := r.book.Audit(t.Context(), r.url)
		switch {
		case errors.Is(err, ErrInterrupted):
			interrupted++
		case err != nil:
			t.Fatal(err)
		case f.Drift != 0 && len(f.Real) > 0: // none: truncated after the snapshot, which then shows an empty table
			t.Errorf("drift %d: real %v, kept %v", f.Drift, f.Real.Nested(), f.Kept.Nested())
		}
	}
	t.Logf("%d of 40 were interrupted", interrupted)
	stop()
	r.counted()
	r.audit(0)
}

// What was deleted past weir makes the counts inexact, durably, until an audit has put them right, durably.
func TestUnannouncedDelete(t *testing.T) {
	r := setUp(t)
	r.start().streaming()
	r.insert("stripe", "a", 10)
	r.exec(`WITH d AS (DELETE FROM weir.deliveries WHERE id IN (SELECT id FROM weir.deliveries LIMIT 3) RETURNING id)
DELETE FROM weir.outbox USING d WHERE outbox.id = d.id`)
	r.eventually(func() error { return r.logged("without an announcement", 1) })
	r.eventually(func() error {
		if v := r.row(); !v.Inexact {
			return errors.New("the row is not inexact")
		}
		return nil
	})
	r.stop()
	r.start().streaming()
	if v, _ := r.book.View(); !v.Inexact || v.Counts.Get("stripe", machine.Pending) != 10 {
		t.Errorf("after a restart: inexact %v, %v", v.Inexact, v.Counts.Nested())
	}
	r.audit(3)
	if v, _ := r.book.View(); v.Inexact || v.Drift != 3 {
		t.Errorf("after the audit: inexact %v, drift %d", v.Inexact, v.Drift)
	}
	r.counted()
	r.durable() // although the position stays: nothing else has happened
	r.stop()
	r.start().streaming()
	r.counted()
	r.audit(0)
	if v, _ := r.book.View(); v.Inexact || v.Drift != 0 {
		t.Errorf("after the second audit: inexact %v, drift %d", v.Inexact, v.Drift)
	}
}

// An update that doesn't say what it left, as a restore without triggers makes, is no reason to stop.
func TestUpdateWithoutFromState(t *testing.T) {
	r := setUp(t)
	r.start().streaming()
	r.insert("stripe", "a", 4)
	tx := r.begin()
	for _, sql := range []string{
		`SET LOCAL session_replication_role = replica`,
		`UPDATE weir.deliveries SET next_attempt_at = clock_timestamp()`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.counted()
	if v, _ := r.book.View(); !v.Inexact {
		t.Error("the book is not inexact")
	}
	r.audit(0)
	if v, _ := r.book.View(); v.Inexact {
		t.Error("the book is inexact after an audit")
	}
}

// An audit waits for transactions that are open, and its context ends the wait, at the server too.
func TestAuditWaitsForOpenTransactions(t *testing.T) {
	r := setUp(t)
	r.start().streaming()
	old := r.begin()
	if _, err := old.Exec(t.Context(), insertSQL, "stripe", "old", 2); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := r.book.Audit(ctx, r.url); done <- err }()
	r.eventually(func() error { return r.temporary(1) })

	waiting, give := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer give()
	if _, err := r.book.Audit(waiting, r.url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second audit: %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("the audit didn't wait: %v", err)
	default:
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) && err == nil {
			t.Errorf("audit: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the audit goes on after its context")
	}
	r.eventually(func() error { return r.temporary(0) })

	go func() { _, err := r.book.Audit(t.Context(), r.url); done <- err }()
	r.eventually(func() error { return r.temporary(1) })
	if err := old.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.counted()
}

func TestAuditWhenNothingStreams(t *testing.T) {
	r := setUp(t)
	if _, err := r.idle().Audit(t.Context(), r.url); !errors.Is(err, ErrNotStreaming) {
		t.Errorf("a book that never began: %v", err)
	}
	r.start().streaming()
	r.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := r.book.Audit(ctx, r.url); !errors.Is(err, ErrNotStreaming) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a book whose stream has ended: %v", err)
	}
	if err := r.temporary(0); err != nil {
		t.Error(err)
	}
}

// What is deleted past weir after an audit's position stays inexact.
func TestAuditDoesNotVouchForWhatCameAfter(t *testing.T) {
	r := setUp(t)
	b := r.resumed(source, 100)
	commit(b, 200, replication.Change{Kind: replication.Delete})
	real := machine.Counts{}
	f := Finding{At: 150, Real: real, Kept: real}
	if !b.correct(f, b.epoch) {
		t.Fatal("not corrected")
	}
	if v, _ := b.View(); !v.Inexact {
		t.Error("the deletion at 200 is forgotten")
	}
	f.At = 200
	if b.correct(f, b.epoch); b.inexact != 0 {
		t.Error("the deletion at 200 is not settled")
	}
	real.Add("stripe", machine.Pending, 7)
	if b.correct(Finding{At: 300, Real: real}, b.epoch-1) || pending(b) != 1 {
		t.Error("a finding of older counts has corrected these")
	}
}
