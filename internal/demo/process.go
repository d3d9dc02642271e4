package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a relay that runs as a process of its own.
type process struct {
	command *exec.Cmd
	done    chan struct{}
	err     error // after done
}

// start runs the relay.
func (d *Demo) start() error {
	command := exec.Command(d.options.Program, "run", "--config", d.config)
	command.Stdout, command.Stderr = d.options.Log, d.options.Log
	command.Env = []string{"HOME=" + d.dir} // nothing that is set here may reach the demo's relay
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the relay: %w", err)
	}
	p := &process{command: command, done: make(chan struct{})}
	go func() { p.err = command.Wait(); close(p.done) }()
	d.relay = p
	return nil
}

// kill ends the relay as a crash does.
func (p *process) kill() error {
	if err := p.command.Process.Kill(); err != nil {
		return err
	}
	<-p.done
	return nil
}

// stop ends the relay in order.
func (p *process) stop() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(10 * time.Second):
		return p.kill()
	}
}

// relayStatus is what the demo wants to know of /status.
type relayStatus struct {
	Stream struct {
		Mode     string
		LagBytes uint64
	} `json:"stream"`
}

// ask reads the relay's status.
func (d *Demo) ask(ctx context.Context) (s relayStatus, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.Listen()+"/status", nil)
	if err != nil {
		return s, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(body, &s)
}

// streams waits until the relay streams.
func (d *Demo) streams(ctx context.Context) error {
	return d.until(ctx, func() (bool, error) {
		select {
		case <-d.relay.done:
			return false, fmt.Errorf("the relay has ended: %v: see its log above", d.relay.err)
		default:
		}
		s, err := d.ask(ctx)
		return err == nil && s.Stream.Mode == "streaming", nil
	})
}

// until polls a condition, and shows the progress meanwhile.
func (d *Demo) until(ctx context.Context, condition func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
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
