package torture

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// world is one run.
type world struct {
	arena    *Arena
	plan     *Plan
	dir      string
	database string
	pool     atomic.Pointer[pgxpool.Pool] // the harness's own, without a link
	provider *provider
	relays   []*relay
	truth    *truth
	journal  *journal
	history  *history                    // nil: there is none, since the server was replaced
	scene    func(context.Context) error // what a scenario does besides the plan
	stepped  bool                        // the server's clock isn't the harness's

	mu     sync.Mutex
	faults []error // found so far
	aimed  int     // items that strikes have enqueued
	mend   sync.Mutex
}

func (a *Arena) newWorld(ctx context.Context, p *Plan) (_ *world, err error) {
	w := &world{arena: a, plan: p, database: fmt.Sprintf("seed_%d", p.Seed), truth: newTruth(), journal: newJournal()}
	defer func() {
		if err != nil {
			w.close(ctx)
		}
	}()
	w.dir = filepath.Join(a.options.Dir, fmt.Sprintf("seed-%d", p.Seed))
	if err := os.RemoveAll(w.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return nil, err
	}
	if err := a.admin(ctx, "CREATE DATABASE "+w.database+" TEMPLATE "+template); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(a.cluster.URL(w.database))
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = "torture"
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	w.pool.Store(pool)
	if w.history, err = newHistory(ctx, w); err != nil {
		return nil, err
	}
	if w.provider, err = newProvider(p); err != nil {
		return nil, err
	}
	for i := range p.Relays {
		r, err := w.newRelay(i)
		if err != nil {
			return nil, err
		}
		w.relays = append(w.relays, r)
	}
	return w, nil
}

// db is the harness's own way to the database.
func (w *world) db() *pgxpool.Pool { return w.pool.Load() }

// slot is the name of weir's slot. Slots belong to the server, so each run has its own.
func (w *world) slot() string { return "weir_" + w.database }

// url is a relay's way to the database through a link.
func (w *world) url(l *link, local bool) string {
	u, err := url.Parse(w.arena.cluster.URL(w.database))
	if err != nil {
		panic(err) // the cluster made it
	}
	u.Host = l.address()
	q := u.Query()
	q.Set("application_name", "weir")
	if local {
		q.Set("synchronous_commit", "local")
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// fail records something that must not be.
func (w *world) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	w.journal.note("WRONG: %v", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, err)
}

// failed says whether anything was found wrong so far.
func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.faults) > 0
}

// play runs the plan, and checks what came of it.
func (w *world) play(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, fmt.Errorf("the run took more than 5 minutes"))
	defer cancel()
	for _, mood := range w.plan.Moods {
		w.journal.note("the provider: %s, probability %v", mood.Name, mood.Match.Probability)
	}
	for _, r := range w.relays {
		if err := r.start(); err != nil {
			w.fail("start: %w", err)
			return
		}
	}
	watching, stopWatching := context.WithCancel(ctx)
	var watch, acts sync.WaitGroup
	watch.Go(func() { w.watch(watching) })
	if w.scene != nil {
		acts.Go(func() {
			if err := w.scene(ctx); err != nil {
				w.fail("harness: %w", err)
			}
		})
	}
	for i, line := range w.plan.Producers {
		acts.Go(func() {
			if err := w.produce(ctx, line); err != nil {
				w.fail("producer %d: %w", i, err)
			}
			w.journal.note("producer %d is done", i)
		})
	}
	for _, track := range w.plan.Tracks {
		acts.Go(func() { w.strikes(ctx, track) })
	}
	acts.Wait()
	w.settle(ctx)
	stopWatching()
	watch.Wait()
	w.check(ctx)
}

// close ends what runs, and answers what was found wrong.
func (w *world) close(ctx context.Context) []error {
	for _, r := range w.relays {
		r.close()
	}
	if w.provider != nil {
		w.provider.close()
	}
	if pool := w.db(); pool != nil {
		pool.Close()
	}
	if err := w.drop(ctx); err != nil {
		w.fail("drop the database: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults
}

// drop removes the database with its slots.
func (w *world) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var err error
	for range 20 {
		err = w.arena.admin(ctx,
			"ALTER DATABASE "+w.database+" ALLOW_CONNECTIONS false",
			"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = '"+w.database+"' AND active",
			"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '"+w.database+"'",
			"DROP DATABASE "+w.database+" WITH (FORCE)")
		if err == nil || sleep(ctx, 100*time.Millisecond) != nil {
			break
		}
	}
	return err
}
