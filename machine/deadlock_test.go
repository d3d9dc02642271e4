package machine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-relay/weir/internal/pgtest"
)

// Statements that meet on the same items, in whatever order their callers list them, don't deadlock.
func TestOverlappingWritesDontDeadlock(t *testing.T) {
	const n = 300
	tests := map[string]struct {
		state State
		write func(ctx context.Context, f *fixture, claims []Ref) (int, error)
	}{
		"accept": {Leased, func(ctx context.Context, f *fixture, claims []Ref) (int, error) {
			var batch []Acceptance
			for _, c := range claims {
				batch = append(batch, Acceptance{Ref: c})
			}
			ids, err := f.Accept(ctx, batch)
			return len(ids), err
		}},
		"retry": {Leased, func(ctx context.Context, f *fixture, claims []Ref) (int, error) {
			var batch []Postponement
			for _, c := range claims {
				batch = append(batch, Postponement{Ref: c})
			}
			left, err := f.Retry(ctx, batch)
			return len(left), err
		}},
		"confirm": {Accepted, func(ctx context.Context, f *fixture, claims []Ref) (int, error) {
			var ids []int64
			for _, c := range claims {
				ids = append(ids, c.ID)
			}
			done, err := f.Confirm(ctx, ids)
			return len(done), err
		}},
		"report": {Accepted, func(ctx context.Context, f *fixture, claims []Ref) (int, error) {
			var batch []Refusal
			for _, c := range claims {
				batch = append(batch, Refusal{Identity: f.identity(c.ID)})
			}
			ids, err := f.Report(ctx, batch)
			return len(ids), err
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, DefaultPolicy())
			f.backlog(n)
			items, err := f.Sweep(t.Context(), stripeOwner(1), 0, n)
			if err != nil || len(items) != n {
				t.Fatalf("sweep: %d items, %v", len(items), err)
			}
			var claims []Ref
			for i := range items {
				claims = append(claims, items[i].Ref())
			}
			if tt.state == Accepted {
				f.acceptAll(claims)
			}
			backward := slices.Clone(claims)
			slices.Reverse(backward)
			overlap(t, f, func(ctx context.Context, turn int) (int, error) {
				return tt.write(ctx, f, [][]Ref{claims, backward}[turn])
			}, n)
		})
	}
}

// overlap runs a write twice at once over the same n items and wants each item written once. So that they do
// meet, a lock on the middle item holds both up until both have begun.
func overlap(t *testing.T, f *fixture, write func(ctx context.Context, turn int) (int, error), n int) {
	t.Helper()
	gate, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Rollback(context.WithoutCancel(t.Context()))
	if _, err := gate.Exec(t.Context(), `SELECT FROM weir.deliveries WHERE id = $1 FOR UPDATE`, n/2); err != nil {
		t.Fatal(err)
	}
	var wrote [2]int
	g, ctx := errgroup.WithContext(t.Context())
	for turn := range wrote {
		g.Go(func() (err error) { wrote[turn], err = write(ctx, turn); return err })
	}
	pgtest.Eventually(t, 20*time.Second, func() error {
		var waiting int
		err := f.db.Pool().QueryRow(t.Context(), `
SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waiting)
		if err == nil && waiting < 2 {
			err = fmt.Errorf("%d of 2 writes wait", waiting)
		}
		return err
	})
	if err := gate.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if wrote[0]+wrote[1] != n {
		t.Errorf("want %d written in all, got %d and %d", n, wrote[0], wrote[1])
	}
}

func (f *fixture) acceptAll(claims []Ref) {
	f.Helper()
	var batch []Acceptance
	for _, c := range claims {
		batch = append(batch, Acceptance{Ref: c})
	}
	if ids, err := f.Accept(f.Context(), batch); err != nil || len(ids) != len(claims) {
		f.Fatalf("accept: %d of %d, %v", len(ids), len(claims), err)
	}
}
