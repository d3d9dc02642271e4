package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/machine"
)

// actor does to items what producers, relays, people and retention do, at random.
type actor struct {
	name  string
	pool  *pgxpool.Pool
	rand  *rand.Rand
	items int
	wild  bool // truncates, too
}

var exporters = []string{"stripe", "webhook", "ledger"}

// policy makes leases expire at once, so that items are claimed over and over.
var policy = machine.Policy{Lease: time.Millisecond, Base: time.Millisecond, Cap: 2 * time.Millisecond, Attempts: 5, Horizon: time.Hour}

var operator = machine.Operator{Actor: "ada", Reason: "looked at it"}

// traffic runs actors until stop is called, which returns once all have ended.
func traffic(t *testing.T, pool *pgxpool.Pool, seed uint64, actors int, wild bool) (stop func()) {
	t.Helper()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for n := range actors {
		a := &actor{name: fmt.Sprintf("a%d-%d", seed, n), pool: pool, rand: rand.New(rand.NewPCG(seed, uint64(n))), wild: wild}
		running.Go(func() {
			for ctx.Err() == nil {
				// Not ctx: a statement that is cancelled halfway closes its connection.
				if err := a.act(t.Context()); err != nil {
					t.Errorf("actor %s: %v", a.name, err)
					return
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// act is one transaction, committed or rolled back.
func (a *actor) act(ctx context.Context) error {
	back := errors.New("rolled back")
	err := pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		for range 1 + a.rand.IntN(3) {
			if err := a.step(ctx, tx); err != nil {
				return err
			}
		}
		if a.rand.IntN(6) == 0 {
			return back
		}
		return nil
	})
	if errors.Is(err, back) || clash(err) {
		return nil
	}
	return err
}

// step is one deed, or one that is taken back by its savepoint.
func (a *actor) step(ctx context.Context, tx pgx.Tx) error {
	if a.rand.IntN(5) > 0 {
		return a.deed(ctx, tx)
	}
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if err := a.deed(ctx, savepoint); err != nil {
		return err
	}
	if a.rand.IntN(2) == 0 {
		return savepoint.Rollback(ctx)
	}
	return savepoint.Commit(ctx)
}

func (a *actor) deed(ctx context.Context, tx pgx.Tx) error {
	switch n := a.rand.IntN(100); {
	case n < 15:
		return a.enqueue(ctx, tx, 1+a.rand.IntN(5))
	case n < 18:
		return a.enqueue(ctx, tx, 200)
	case n < 55:
		return a.deliver(ctx, tx)
	case n < 90:
		return a.decide(ctx, tx)
	case n < 99 || !a.wild:
		_, err := machine.NewStore(tx, policy).Remove(ctx, machine.Retention{Accepted: a.rand.IntN(2) == 0}, 0, 1<<62)
		return err
	default:
		_, err := tx.Exec(ctx, "TRUNCATE weir.deliveries, weir.outbox")
		return err
	}
}

// enqueue copies rows in.
func (a *actor) enqueue(ctx context.Context, tx pgx.Tx, n int) error {
	var rows [][]any
	for range n {
		a.items++
		var reason any
		if a.rand.IntN(4) == 0 {
			reason = "unmapped"
		}
		rows = append(rows, []any{"tenant", fmt.Sprintf("%s-%d", a.name, a.items), exporters[a.rand.IntN(3)], "test", "v1",
			map[string]any{"value": 1}, reason})
	}
	columns := []string{"tenant_key", "subject_ref", "exporter", "mode", "mapping_version", "payload", "quarantine_reason"}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"weir", "outbox"}, columns, pgx.CopyFromRows(rows))
	return err
}

// deliver claims and settles, or leaves the lease to expire.
func (a *actor) deliver(ctx context.Context, tx pgx.Tx) error {
	s := machine.NewStore(tx, policy)
	items, err := s.Sweep(ctx, machine.Claimer{Exporter: exporters[a.rand.IntN(3)], Owner: a.name}, 0, 1+a.rand.IntN(30))
	if err != nil {
		return err
	}
	cause := machine.Cause{Code: "http_503"}
	for _, it := range items {
		switch a.rand.IntN(8) {
		case 0, 1, 2:
			_, err = s.Accept(ctx, []machine.Acceptance{{Ref: it.Ref()}})
		case 3:
			_, err = s.Retry(ctx, []machine.Postponement{{Ref: it.Ref(), Cause: cause, Cost: machine.Cost(a.rand.IntN(3))}})
		case 4:
			_, err = s.Doubt(ctx, []machine.Failure{{Ref: it.Ref(), Cause: cause}})
		case 5:
			_, err = s.Reject(ctx, []machine.Failure{{Ref: it.Ref(), Cause: cause}})
		case 6:
			_, err = s.Quarantine(ctx, []machine.Hold{{Ref: it.Ref(), Cause: machine.Cause{Code: "wrong_mode"}}})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decide does to a few items what the reconciler and people do.
func (a *actor) decide(ctx context.Context, tx pgx.Tx) error {
	s := machine.NewStore(tx, policy)
	rows, err := tx.Query(ctx, `
SELECT id, lease_token, state, abandoned_at IS NOT NULL FROM weir.deliveries
 WHERE state IN ('accepted', 'uncertain', 'rejected', 'quarantined') ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED`)
	if err != nil {
		return err
	}
	type found struct {
		ref       machine.Ref
		state     machine.State
		abandoned bool
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f found, err error) {
		return f, row.Scan(&f.ref.ID, &f.ref.Token, &f.state, &f.abandoned)
	})
	if err != nil {
		return err
	}
	for _, f := range all {
		switch {
		case f.abandoned:
		case f.state == machine.Accepted:
			_, err = s.Confirm(ctx, []int64{f.ref.ID})
		case f.state == machine.Uncertain:
			events := []machine.Event{machine.RecoverAccept, machine.RecoverRetry, machine.RecoverReject}
			err = s.Recover(ctx, f.ref, events[a.rand.IntN(3)], operator)
		case f.state == machine.Quarantined && a.rand.IntN(2) == 0:
			err = s.Requeue(ctx, f.ref.ID, "v1", operator)
		default:
			err = s.Abandon(ctx, f.ref.ID, f.state, operator)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clash says that two transactions stood in each other's way, which rolled one of them back.
func clash(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001")
}
