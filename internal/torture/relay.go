package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/weir-relay/weir/internal/daemon"
)

// relay is one relay: a process at a time, with links of its own.
type relay struct {
	index   int
	world   *world
	pool    *link
	stream  *link
	listen  string
	config  string
	logFile *os.File

	mu          sync.Mutex
	process     *daemon.Relay // nil while it is down
	incarnation int
}

func (w *world) newRelay(index int) (*relay, error) {
	r := &relay{index: index, world: w, config: filepath.Join(w.dir, fmt.Sprintf("relay-%d.yaml", index))}
	server := fmt.Sprintf("127.0.0.1:%d", w.arena.cluster.Port())
	var err error
	if r.pool, err = newLink(server); err != nil {
		return nil, err
	}
	if r.stream, err = newLink(server); err != nil {
		return nil, err
	}
	if r.listen, err = daemon.FreeAddress(); err != nil {
		return nil, err
	}
	if r.logFile, err = os.Create(filepath.Join(w.dir, fmt.Sprintf("relay-%d.log", index))); err != nil {
		return nil, err
	}
	return r, os.WriteFile(r.config, []byte(r.yaml()), 0o600)
}

func (r *relay) yaml() string {
	p := r.world.plan
	return fmt.Sprintf(`database:
  url: %s
  replication_url: %s
replication:
  slot: %s
  status_interval: 150ms
  wal_sender_timeout: 2s
policy:
  lease: %s
  backoff_base: %s
  backoff_cap: %s
  attempts: %d
  horizon: %s
relay:
  poll_interval: 200ms
  shutdown_grace: 3s
http:
  listen: %s
lanes:
  stripe:
    order: %s
    stripe:
      key: %s
      url: http://%s
      rate: -1
      calls: 16
      timeout: %s
      rate_limit_delay: 150ms
`, r.world.url(r.pool, p.Local), r.world.url(r.stream, p.Local), r.world.slot(), lease, backoffBase, backoffCap, p.Attempts, p.Horizon,
		r.listen, p.Order, secretKey, r.world.provider.address[r.index], callTimeout)
}

// start runs the relay, if it is down.
func (r *relay) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil && r.process.Ended() == nil {
		return nil
	}
	if r.process != nil {
		r.world.fail("relay %d ended by itself: %v", r.index, r.process.Ended())
	}
	r.incarnation++
	r.world.journal.note("relay %d starts as r%d.%d", r.index, r.index, r.incarnation)
	var err error
	r.process, err = daemon.Start(daemon.Options{
		Program: r.world.arena.options.Program, Config: r.config, Home: r.world.dir, Listen: r.listen, Log: r.logFile,
		Args: []string{"--set", fmt.Sprintf("relay.owner=r%d.%d", r.index, r.incarnation)},
	})
	return err
}

// kill ends the relay as a crash does, whatever it is doing.
func (r *relay) kill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return nil
	}
	if err := r.process.Ended(); err != nil {
		r.world.fail("relay %d ended by itself: %v", r.index, err)
	}
	r.world.journal.note("relay %d is killed", r.index)
	err := r.process.Kill()
	r.process = nil
	return err
}

// stop ends the relay in order, and minds how it ended.
func (r *relay) stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return nil
	}
	if err := r.process.Ended(); err != nil {
		r.world.fail("relay %d ended by itself: %v", r.index, err)
	}
	r.world.journal.note("relay %d is stopped in order", r.index)
	begun := time.Now()
	err := r.process.Stop()
	if took := time.Since(begun); took > 9*time.Second {
		r.world.fail("relay %d took %v to stop", r.index, took)
	}
	r.process = nil
	return err
}

// signal sends the process a signal. False: it is down.
func (r *relay) signal(s syscall.Signal) (sent bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return false, nil
	}
	return true, r.process.Signal(s)
}

// ask runs f with the process, if there is one.
func (r *relay) ask(f func(*daemon.Relay) error) error {
	r.mu.Lock()
	process := r.process
	r.mu.Unlock()
	if process == nil {
		return errDown
	}
	return f(process)
}

var errDown = errors.New("the relay is down")

// streams says whether this relay reads the log.
func (r *relay) streams(ctx context.Context) (yes bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = r.ask(func(p *daemon.Relay) error {
		s, err := p.Status(ctx)
		yes = err == nil && s.Stream.Mode == "streaming"
		return err
	})
	return yes
}

// metric asks for a metric, summed over the series whose labels contain label.
func (r *relay) metric(ctx context.Context, name, label string) (n float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = r.ask(func(p *daemon.Relay) error {
		n, err = p.Metric(ctx, name, label)
		return err
	})
	return n, err
}

func (r *relay) close() {
	if r.process != nil {
		_ = r.process.Kill() // it was to be stopped before, in order
	}
	r.pool.close()
	r.stream.close()
	r.logFile.Close()
}
