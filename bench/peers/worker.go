package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// worker is the process of a peer.
type worker interface {
	// Ended is nil while it runs.
	Ended() error
	// Stop ends it in order.
	Stop() error
}

// start runs the turn's peer, which sends to the receiver at url, or does nothing but tell it of the first item.
func (t *turn) start(url string, idle bool) (worker, error) {
	if t.peer.work == nil {
		if idle {
			url = ""
		}
		return startWeir(t.options, t.url(), url)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	command := exec.Command(program, workCommand, "-peer", t.peer.String(), "-database", t.url(), "-receiver", url, fmt.Sprintf("-idle=%t", idle))
	command.Stdout, command.Stderr = t.log, t.log
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %v: %w", t.peer, err)
	}
	p := &process{command: command, done: make(chan struct{})}
	go func() { p.err = command.Wait(); close(p.done) }()
	return p, nil
}

// process is this program, started anew as a peer.
type process struct {
	command *exec.Cmd
	done    chan struct{}
	err     error // after done
}

func (p *process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("the peer has ended: %v", p.err)
	default:
		return nil
	}
}

func (p *process) Stop() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(10 * time.Second):
		p.command.Process.Kill() //nolint:errcheck // it ended just now
		<-p.done
		return nil
	}
}

// workCommand makes this program a peer's process.
const workCommand = "work"

// work is a peer's process: it ends with the context.
func work(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(workCommand, flag.ContinueOnError)
	name := flags.String("peer", "", "")
	database := flags.String("database", "", "")
	receiver := flags.String("receiver", "", "")
	idle := flags.Bool("idle", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	do := postTo(*receiver)
	if *idle {
		do = nothing(do)
	}
	for _, p := range peers() {
		if p.String() != *name || p.work == nil {
			continue
		}
		pool, err := pgxpool.New(ctx, *database)
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := p.work(ctx, pool, do); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	}
	return fmt.Errorf("there is no peer %q", *name)
}
