package machine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

func stripeOwner(n int) Claimer { return Claimer{Exporter: "stripe", Owner: fmt.Sprintf("w%d", n)} }

// ledger notes who got which item.
type ledger struct {
	mu    sync.Mutex
	takes map[int64]int
}

func (l *ledger) note(items []Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range items {
		l.takes[it.ID]++
	}
}

// check wants every one of ids taken exactly once.
func (l *ledger) check(t testing.TB, n int) {
	t.Helper()
	if len(l.takes) != n {
		t.Errorf("want %d items taken, got %d", n, len(l.takes))
	}
	for id, takes := range l.takes {
		if takes != 1 {
			t.Errorf("item %d was taken %d times", id, takes)
		}
	}
}

// Many sweeps of one backlog, with claims by id of the same items between them: none twice, none missed.
func TestConcurrentClaimsAreDisjoint(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	const n, workers = 3000, 8
	f.backlog(n)
	l := &ledger{takes: map[int64]int{}}
	g, ctx := errgroup.WithContext(t.Context())
	for w := range workers {
		g.Go(func() error {
			for {
				items, err := f.Sweep(ctx, stripeOwner(w), 0, 37)
				if err != nil {
					return err
				}
				l.note(items)
				var near []int64
				for i := range int64(20) {
					near = append(near, (int64(w)*n/workers+i*17)%n+1)
				}
				byID, err := f.Claim(ctx, stripeOwner(w), near)
				if err != nil {
					return err
				}
				l.note(byID)
				if len(items) > 0 {
					continue
				}
				// SKIP LOCKED may have skipped what another claim gave back by failing; none did.
				return nil
			}
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	rest, err := f.Sweep(t.Context(), stripeOwner(workers), 0, n)
	if err != nil {
		t.Fatal(err)
	}
	l.note(rest)
	l.check(t, n)
}

// A row that somebody else has locked is passed over, not waited for.
func TestClaimSkipsLocked(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	f.backlog(3)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT FROM weir.deliveries WHERE id = 2 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	byID, err := f.Claim(ctx, stripeOwner(1), []int64{1, 2})
	if err != nil || len(byID) != 1 || byID[0].ID != 1 {
		t.Fatalf("claim: want item 1, got %v, %v", byID, err)
	}
	swept, err := f.Sweep(ctx, stripeOwner(1), 0, 10)
	if err != nil || len(swept) != 1 || swept[0].ID != 3 {
		t.Fatalf("sweep: want item 3, got %v, %v", swept, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := f.Sweep(ctx, stripeOwner(1), 0, 10); err != nil || len(left) != 1 || left[0].ID != 2 {
		t.Errorf("afterwards: want item 2, got %v, %v", left, err)
	}
}

// A claim whose snapshot is older than another's commit meets the newest row, and leaves it.
func TestClaimUnderAnOldSnapshot(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	f.backlog(1)
	err := pgx.BeginTxFunc(t.Context(), f.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := NewStore(tx, DefaultPolicy()).Claim(t.Context(), stripeOwner(1), []int64{1}); err != nil {
			return err
		}
		// Not committed: another claim can neither see it nor take it.
		if items, err := f.Claim(t.Context(), stripeOwner(2), []int64{1}); err != nil || len(items) != 0 {
			t.Errorf("want nothing, got %v, %v", items, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if items, err := f.Claim(t.Context(), stripeOwner(2), []int64{1}); err != nil || len(items) != 0 {
		t.Errorf("want nothing, got %v, %v", items, err)
	}
}

// Of two workers that settle one claim twice, one writes.
// lesson 23
func TestConcurrentSettlesOfOneClaim(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	for i := range 30 {
		claim := f.claimed(f.enqueue(fmt.Sprint(i))).Ref()
		var wrote [2]int
		g, ctx := errgroup.WithContext(t.Context())
		g.Go(func() (err error) { wrote[0], err = settles()[Accept](ctx, f, claim); return err })
		g.Go(func() (err error) { wrote[1], err = settles()[Reject](ctx, f, claim); return err })
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if wrote[0]+wrote[1] != 1 {
			t.Fatalf("want one write, got %d and %d", wrote[0], wrote[1])
		}
	}
}

// Ids are given before commits, so an item may appear below those that have been sent. A sweep from 0 finds it.
// lesson 24
func TestSweepFindsLateCommits(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	late, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Rollback(context.WithoutCancel(t.Context()))
	low := f.stage(late, intent{ref: "low"})
	high := f.enqueue("high")
	if low >= high {
		t.Fatalf("want the late one lower, got %d and %d", low, high)
	}
	items, err := f.Sweep(t.Context(), stripeOwner(1), 0, 10)
	if err != nil || len(items) != 1 || items[0].ID != high {
		t.Fatalf("before the commit: want item %d, got %v, %v", high, items, err)
	}
	// A wake may come before the row can be seen: Look then doesn't know the item. lesson 1
	if sights, err := f.Look(t.Context(), []int64{low}); err != nil || len(sights) != 0 {
		t.Errorf("before the commit: want no sight of item %d, got %v, %v", low, sights, err)
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := f.Sweep(t.Context(), stripeOwner(1), high, 10); err != nil || len(after) != 0 {
		t.Errorf("above the last: want nothing, got %v, %v", after, err)
	}
	if again, err := f.Sweep(t.Context(), stripeOwner(1), 0, 10); err != nil || len(again) != 1 || again[0].ID != low {
		t.Errorf("from 0: want item %d, got %v, %v", low, again, err)
	}
}
