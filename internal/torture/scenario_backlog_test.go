package torture

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/daemon"
)

// A million items wait when the relay starts, and a transaction of 200,000 comes while it works. lesson 15, 16.
func TestScenarioBacklog(t *testing.T) {
	slow(t)
	const (
		waiting = 1_000_000
		large   = 200_000
		bound   = 64 << 20
	)
	dir := t.TempDir()
	a := open(t, Options{Program: build(t), Dir: dir})
	ctx := t.Context()
	if err := a.admin(ctx, "CREATE DATABASE backlog TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, a.cluster.URL("backlog"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	insert := func(from, to int) {
		t.Helper()
		_, err := pool.Exec(ctx, `
INSERT INTO weir.outbox (tenant_key, subject_ref, exporter, mode, mapping_version, payload)
SELECT 'bulk', n::text, 'bulk', 'test', '1', '{}' FROM generate_series($1::int, $2::int) n`, from, to)
		if err != nil {
			t.Fatal(err)
		}
	}
	insert(1, waiting)
	listen, err := daemon.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "weir.yaml")
	text := fmt.Sprintf("database:\n  url: %s\nhttp:\n  listen: %s\nlanes:\n  bulk:\n    type: \"null\"\n", a.cluster.URL("backlog"), listen)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	relay, err := daemon.Start(daemon.Options{Program: a.options.Program, Config: config, Home: dir, Listen: listen, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := relay.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := relay.AwaitStreaming(ctx); err != nil {
		t.Fatal(err)
	}
	insert(waiting+1, waiting+large)
	err = relay.Await(ctx, func() (bool, error) {
		var open bool
		err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM weir.deliveries WHERE open)`).Scan(&open)
		return !open, err
	})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	err = relay.Await(ctx, func() (bool, error) {
		n, err := relay.Metric(ctx, "weir_items", `state="accepted"`)
		return n == waiting+large, err
	})
	if err != nil {
		t.Fatal(err)
	}
	cost, err := relay.Cost()
	if err != nil {
		t.Skipf("what the relay takes can't be read here: %v", err)
	}
	t.Logf("%d items in %v; RSS %.1f MiB at most, CPU %v", waiting+large, took.Round(time.Millisecond), float64(cost.MaxRSS)/(1<<20), cost.CPU)
	if cost.MaxRSS > bound {
		t.Errorf("RSS of %d bytes at most, need less than %d", cost.MaxRSS, bound)
	}
}
