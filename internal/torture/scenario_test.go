package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
)

// The scenarios are the faults that need a set-up of their own. They are checked like any seed.

// plain is a plan without strikes and moods: n items by one producer.
func plain(n, relays int) *Plan {
	p := &Plan{Seed: 1, At: today(), Relays: relays, Order: machine.BestEffort, Attempts: 20, Horizon: 10 * time.Minute}
	var line []Transaction
	for i := range n {
		it := Item{Ref: fmt.Sprint(i), Customer: fmt.Sprintf("cus_%d", i%50), Meter: meters[i%2], Value: i + 1, At: p.At}
		line = append(line, Transaction{Pause: 5 * time.Millisecond, Items: []Item{it}})
	}
	p.Producers = [][]Transaction{line}
	return p
}

// enact runs a plan with a scene, in which nothing may go wrong.
func enact(t *testing.T, a *Arena, p *Plan, scene func(context.Context, *world) error) {
	t.Helper()
	faults, timeline := perform(t, a, p, scene)
	for _, fault := range faults {
		t.Error(fault)
	}
	if t.Failed() {
		t.Log(timeline)
	}
}

// perform runs a plan with a scene, and answers what went wrong.
func perform(t *testing.T, a *Arena, p *Plan, scene func(context.Context, *world) error) (faults []error, timeline string) {
	t.Helper()
	w, err := a.newWorld(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	w.scene = func(ctx context.Context) error { return scene(ctx, w) }
	w.play(t.Context())
	return w.close(t.Context()), w.journal.text.String()
}

// slow skips what takes minutes, unless it was asked for.
func slow(t *testing.T) {
	t.Helper()
	if os.Getenv("WEIR_TEST_TORTURE") == "" {
		t.Skip("takes a minute or so: run make scenarios, or set WEIR_TEST_TORTURE=1")
	}
}

// A standby becomes the primary, without the slot and without the latest settles. lesson 13.
func TestScenarioFailover(t *testing.T) {
	slow(t)
	a := open(t, Options{Program: build(t), Dir: t.TempDir()})
	standby, err := a.cluster.Standby(t.Context(), map[string]string{"hot_standby": "on"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { standby.Stop() })
	enact(t, a, plain(100, 1), func(ctx context.Context, w *world) error {
		// Slow enough that most items are on their way when the primary is gone.
		if _, err := w.provider.AddFault(sandbox.Rule{Action: sandbox.Action{Kind: sandbox.FaultDelay, When: sandbox.After, Delay: callTimeout / 2}}); err != nil {
			return err
		}
		// What the standby doesn't have is lost, as everywhere; so the producer is done, and the standby has it.
		if err := poll(ctx, func() bool { return w.truth.size() == 100 }); err != nil {
			return err
		}
		caughtUp := func() bool {
			var there bool
			err := w.db().QueryRow(ctx, `SELECT count(*) = (SELECT count(*) FROM pg_stat_replication WHERE application_name = 'walreceiver'
				AND replay_lsn >= pg_current_wal_lsn()) FROM (SELECT 1) one`).Scan(&there)
			return err == nil && there
		}
		if err := poll(ctx, caughtUp); err != nil {
			return err
		}
		if err := w.arena.cluster.Crash(); err != nil {
			return err
		}
		if err := standby.Promote(ctx); err != nil {
			return err
		}
		pool, err := pgxpool.New(ctx, standby.URL(w.database))
		if err != nil {
			return err
		}
		w.arena = &Arena{options: a.options, cluster: standby}
		w.history = nil
		w.pool.Swap(pool).Close()
		for _, r := range w.relays {
			r.pool.lead(fmt.Sprintf("127.0.0.1:%d", standby.Port()))
			r.stream.lead(fmt.Sprintf("127.0.0.1:%d", standby.Port()))
		}
		w.journal.note("the standby is the primary")
		for range 20 {
			if _, err := w.enqueueOne(ctx, w.aim()); err != nil {
				return err
			}
		}
		return nil
	})
}

// The server's disk fills up, the server ends, and goes on when there is room again.
func TestScenarioDiskFull(t *testing.T) {
	slow(t)
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The server's account has to get there too.
	for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=300m,mode=777"); err != nil {
		t.Skipf("needs a small file system, and may not make one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	a, err := openIn(t.Context(), Options{Program: build(t), Dir: t.TempDir()}, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	enact(t, a, plain(300, 2), func(ctx context.Context, w *world) error {
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		filler := filepath.Join(dir, "filler")
		if err := fill(filler); err != nil {
			return err
		}
		w.journal.note("the disk is full")
		bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		// What is written to the log runs into the end of the segment that is there, which ends the server.
		for bounded.Err() == nil {
			_, err := w.db().Exec(bounded, `SELECT pg_logical_emit_message(false, 'torture', repeat('x', 1000000)) FROM generate_series(1, 4)`)
			if err != nil {
				w.journal.note("the server says: %v", err)
			}
			if err := sleep(bounded, 50*time.Millisecond); err != nil {
				break
			}
		}
		if err := os.Remove(filler); err != nil {
			return err
		}
		w.journal.note("there is room again")
		return a.cluster.Restart(ctx)
	})
}

// fill writes until there is no room.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for {
		if _, err := f.Write(block); err != nil {
			if errors.Is(err, unix.ENOSPC) {
				return nil
			}
			return err
		}
	}
}

// An outage longer than all attempts with their pauses takes no attempt away: nothing becomes uncertain.
func TestScenarioLongOutage(t *testing.T) {
	slow(t)
	a := open(t, Options{Program: build(t), Dir: t.TempDir()})
	p := plain(60, 1)
	enact(t, a, p, func(ctx context.Context, w *world) error {
		w.provider.Down(true)
		defer w.provider.Down(false)
		return sleep(ctx, 3*time.Duration(p.Attempts)*backoffCap/2)
	})
}
