package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/weir-relay/weir/internal/postgres"
)

// options say what is measured, with what.
type options struct {
	weir        string  // weir's executable; "": built
	postgresDir string  // below which the cluster is put; "": in memory
	rate        float64 // latency: items a second
	slice       time.Duration
	items       int           // drain: of a backlog
	delay       time.Duration // calls: what each answer takes
	calls       int           // calls: of a backlog
	rounds      int           // turns that each peer has
	only        string        // what names and settings of the peers to measure match; "": all

	dir      string    // of the run; set by measure
	log      io.Writer // gets what peers say
	progress func(step string)
}

// patience is how long a turn may take to finish what it began.
const patience = 3 * time.Minute

// bench is a measurement under way.
type bench struct {
	options
	cluster  *postgres.Cluster
	receiver *receiver
	turns    int
}

// measure lets all peers take turns: in each round everyone has one for latency, one for drain and
// one for calls. Who
// begins changes from round to round, so that a drift of the machine hits all.
func measure(ctx context.Context, o options) (_ *result, err error) {
	b := &bench{options: o}
	chosen, err := b.chosen()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	r := newResult(o, b.cluster.Major(), chosen)
	for round := range o.rounds {
		for i := range chosen {
			at := (round + i) % len(chosen)
			p, figures := chosen[at], r.Peers[at]
			b.progress(fmt.Sprintf("round %d of %d: %v", round+1, o.rounds, p))
			if err := b.round(ctx, p, figures); err != nil {
				return nil, fmt.Errorf("%v: %w", p, err)
			}
		}
	}
	r.finish()
	return r, nil
}

// round is a peer's part of one.
func (b *bench) round(ctx context.Context, p peer, f *figures) error {
	s, err := b.latency(ctx, p)
	if err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	f.P50s, f.P99s, f.Repeats = append(f.P50s, s.p50), append(f.P99s, s.p99), f.Repeats+s.repeats
	rate, err := b.drain(ctx, p, backlog{items: b.items, idle: true})
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	f.Drains = append(f.Drains, rate)
	rate, err = b.drain(ctx, p, backlog{items: b.calls, delay: b.delay})
	if err != nil {
		return fmt.Errorf("calls: %w", err)
	}
	f.Calls = append(f.Calls, rate)
	return nil
}

// chosen are weir and those that are asked for.
func (b *bench) chosen() ([]peer, error) {
	asked, err := regexp.Compile("(?i)" + b.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	all := peers()
	chosen := all[:1]
	for _, p := range all[1:] {
		if asked.MatchString(p.String()) {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

func (b *bench) open(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "weir-peers-"); err != nil {
		return err
	}
	if b.weir == "" {
		b.progress("building weir")
		if b.weir, err = build(ctx, b.dir); err != nil {
			return err
		}
	}
	b.progress("preparing Postgres")
	b.cluster, err = postgres.Start(ctx, postgres.Options{
		Dir: b.postgresDir, SharedBuffers: "512MB",
		Settings: map[string]string{
			"track_commit_timestamp": "on",
			// Postgres' checkpoints are put off: one would hit whoever has the turn.
			"max_wal_size":       "8GB",
			"checkpoint_timeout": "1h",
		},
	})
	if err != nil {
		return err
	}
	b.receiver, err = receive()
	return err
}

// build makes weir's executable in dir, from the checkout that this module is part of.
func build(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/weir-relay/weir").Output()
	if err != nil {
		return "", fmt.Errorf("find weir's sources: %w: run this in bench/peers, or name weir's executable with -weir", err)
	}
	program := filepath.Join(dir, "weir")
	command := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/weir")
	command.Dir = strings.TrimSpace(string(root))
	if said, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build weir: %w\n%s", err, said)
	}
	return program, nil
}

func (b *bench) close() error {
	var errs []error
	if b.receiver != nil {
		b.receiver.close()
	}
	if b.cluster != nil {
		errs = append(errs, b.cluster.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}
