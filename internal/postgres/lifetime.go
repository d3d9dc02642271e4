package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// shutdownPatience is how long each signal may take to end the server. A fast
// shutdown waits for logical walsenders whose client doesn't confirm, in the
// worst case for ever; at an immediate one the postmaster kills backends that
// are slower than five seconds.
const shutdownPatience = 10 * time.Second

// Stop ends the server and removes its folder, unless Options.Keep. A second
// call does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	if c.opts.Keep {
		return c.shutDown()
	}
	// Data that is deleted next needs no last checkpoint.
	if err := c.end(syscall.SIGQUIT, syscall.SIGKILL); err != nil {
		return err
	}
	return c.folder.remove()
}

// Crash is an immediate shutdown (SIGQUIT): connections break, nothing is
// flushed, the next start recovers from the WAL.
func (c *Cluster) Crash() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end(syscall.SIGQUIT, syscall.SIGKILL)
}

// Kill ends the postmaster and its backends with SIGKILL, as the kernel does
// when memory runs out.
func (c *Cluster) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil || !c.server.running() {
		return nil
	}
	postmaster := c.server.cmd.Process.Pid
	// Halted first, or it would start new backends while we count the old ones.
	if err := halt(postmaster); err != nil {
		return fmt.Errorf("halt postmaster: %w", err)
	}
	backends, err := children(postmaster)
	if err != nil {
		return errors.Join(err, c.end(syscall.SIGKILL))
	}
	err = c.end(syscall.SIGKILL)
	for _, pid := range backends {
		if killErr := kill(pid); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, fmt.Errorf("kill backend %d: %w", pid, killErr))
		}
	}
	// A new postmaster refuses to start beside backends of the old one.
	return errors.Join(err, waitGone(backends))
}

// Restart ends the server if it runs (fast shutdown) and starts it again on the
// same port with the same data. It returns when connections are accepted.
func (c *Cluster) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return fmt.Errorf("restart: %w", ErrStopped)
	}
	if err := c.shutDown(); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if err := c.launch(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return nil
}

// shutDown is a fast shutdown, or an immediate one when that takes too long.
func (c *Cluster) shutDown() error { return c.end(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL) }

// end signals the postmaster, each time harder, until it is gone.
func (c *Cluster) end(signals ...os.Signal) error {
	if c.server == nil || !c.server.running() {
		return nil
	}
	for _, sig := range signals {
		if err := c.signal(sig); err != nil {
			return err
		}
		patience := time.NewTimer(shutdownPatience)
		defer patience.Stop()
		select {
		case <-c.server.done:
			return nil
		case <-patience.C:
		}
	}
	return fmt.Errorf("postmaster %d is still there %v after %v", c.server.cmd.Process.Pid, shutdownPatience, signals[len(signals)-1])
}

func (c *Cluster) signal(sig os.Signal) error {
	if err := c.server.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal postmaster with %v: %w", sig, err)
	}
	return nil
}

func waitGone(pids []int) error {
	deadline := time.NewTimer(shutdownPatience)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for _, pid := range pids {
		for alive(pid) {
			select {
			case <-tick.C:
			case <-deadline.C:
				return fmt.Errorf("process %d is still there %v after SIGKILL", pid, shutdownPatience)
			}
		}
	}
	return nil
}
