package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/weir-relay/weir/internal/postgres"
)

// Options say which relay is run.
type Options struct {
	Program string    // weir's executable
	Config  string    // its configuration file
	Home    string    // a folder that it may take for its home
	Listen  string    // the address that Config gives http.listen
	Log     io.Writer // gets what it says
	Args    []string  // more arguments of `weir run`
}

// Relay is a relay that runs as a process of its own.
type Relay struct {
	listen  string
	command *exec.Cmd
	done    chan struct{}
	err     error // after done
}

// Start runs a relay.
func Start(o Options) (*Relay, error) {
	command := exec.Command(o.Program, append([]string{"run", "--config", o.Config}, o.Args...)...)
	command.Stdout, command.Stderr = o.Log, o.Log
	command.Env = []string{"HOME=" + o.Home}
	dieWithParent(command)
	r := &Relay{listen: o.Listen, command: command, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal comes at the death of the thread that started the process, so that has to live as long.
		runtime.LockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			r.err = command.Wait()
			close(r.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the relay: %w", err)
	}
	return r, nil
}

// Kill ends the relay as a crash does.
func (r *Relay) Kill() error {
	if err := r.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.done
	return nil
}

// Signal sends the relay a signal, such as SIGSTOP.
func (r *Relay) Signal(s os.Signal) error { return r.command.Process.Signal(s) }

// Stop ends the relay in order.
func (r *Relay) Stop() error {
	if err := r.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-r.done:
		return nil
	case <-time.After(10 * time.Second):
		return r.Kill()
	}
}

// Ended is nil while the relay runs.
func (r *Relay) Ended() error {
	select {
	case <-r.done:
		return fmt.Errorf("the relay has ended: %v: see its log above", r.err)
	default:
		return nil
	}
}

// AwaitStreaming waits until the relay streams.
func (r *Relay) AwaitStreaming(ctx context.Context) error {
	return r.Await(ctx, func() (bool, error) {
		s, err := r.Status(ctx)
		return err == nil && s.Stream.Mode == "streaming", nil
	})
}

// Await polls a condition, and whether the relay still runs.
func (r *Relay) Await(ctx context.Context, condition func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := r.Ended(); err != nil {
			return err
		}
		done, err := condition()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// FreeAddress is a loopback address that nobody listens on.
func FreeAddress() (string, error) {
	port, err := postgres.FreePort()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d", port), nil
}
