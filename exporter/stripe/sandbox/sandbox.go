package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Sandbox is a running stand-in for Stripe. It is safe for concurrent use.
type Sandbox struct {
	cfg     Config
	invalid error // from Config.Validate; every request then answers with it
	keys    map[string]Key
	clock   clock
	hasher  hasher
	faults  *faultSet
	down    atomic.Bool
	number  atomic.Uint64 // of the latest request

	worldsMu sync.RWMutex
	worlds   map[scope]*world

	sessions sessions
	courier  courier
	woken    chan struct{} // has one slot: something may be due for Run

	closing sync.Once
	closed  chan struct{} // closed by Close: ends hanging calls

	api, stream http.Handler
}

// New makes a Sandbox. It doesn't fail: a Config that Validate refuses makes every request answer 500 with the
// reason, and Run and Serve return it.
func New(cfg Config) *Sandbox {
	s := &Sandbox{
		invalid: cfg.Validate(),
		cfg:     cfg.withDefaults(),
		keys:    map[string]Key{},
		hasher:  newHasher(),
		worlds:  map[scope]*world{},
		woken:   make(chan struct{}, 1),
		closed:  make(chan struct{}),
	}
	s.number.Store(uint64(time.Now().UnixNano()))
	s.faults = newFaultSet(s.cfg.Seed)
	for _, k := range s.cfg.Keys {
		k.Account = or(k.Account, DefaultAccount)
		s.keys[k.Secret] = k
	}
	if !cfg.Start.IsZero() {
		s.SetTime(cfg.Start)
	}
	for _, r := range cfg.Faults {
		if _, err := s.AddFault(r); err != nil {
			s.invalid = errors.Join(s.invalid, err)
		}
	}
	s.api, s.stream = s.guard(s.apiRoutes()), s.guard(s.streamRoutes())
	return s
}

// Handler serves the API (api.stripe.com), the stream (by the host name meter-events.*, or to whoever posts to
// its path) and the admin endpoints under /_sandbox/.
func (s *Sandbox) Handler() http.Handler { return s.api }

// StreamHandler serves meter-events.stripe.com only, for a listener of its own.
func (s *Sandbox) StreamHandler() http.Handler { return s.stream }

// guard keeps a sandbox with an invalid configuration from looking healthy.
func (s *Sandbox) guard(next http.Handler) http.Handler {
	if s.invalid == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "sandbox: invalid configuration: "+s.invalid.Error(), http.StatusInternalServerError)
	})
}

// Serve answers on a listener until ctx ends, and does what is due by time (see Run). It closes the listener.
func (s *Sandbox) Serve(ctx context.Context, l net.Listener) error {
	if s.invalid != nil {
		l.Close()
		return fmt.Errorf("sandbox: invalid configuration: %w", s.invalid)
	}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			stop(fmt.Errorf("serve: %w", err))
		}
	}()
	err := s.Run(ctx)
	s.Close()
	server.Close()
	return err
}

// Run does what is due by time, error reports and webhooks, until ctx ends. It returns nil if ctx was cancelled
// without a cause. Tests that use Handler alone can call Publish instead.
func (s *Sandbox) Run(ctx context.Context) error {
	if s.invalid != nil {
		return fmt.Errorf("sandbox: invalid configuration: %w", s.invalid)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		case <-tick.C:
		case <-s.woken:
		}
		s.closeWindows(false)
		s.courier.deliver(ctx, s, false)
	}
}

// Close ends calls that hang or wait because a fault says so. Later ones end at once.
func (s *Sandbox) Close() { s.closing.Do(func() { close(s.closed) }) }

// wake makes Run look at the clock again.
func (s *Sandbox) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// Reset empties every account: events, answers, customers, meters but the configured ones. Faults end, Down ends,
// the clock returns to where the configuration started it.
func (s *Sandbox) Reset() {
	s.worldsMu.Lock()
	s.worlds = map[scope]*world{}
	s.worldsMu.Unlock()
	s.sessions.clear()
	s.courier.clear()
	s.ClearFaults()
	s.Down(false)
	s.clock.offset.Store(0)
	if !s.cfg.Start.IsZero() {
		s.SetTime(s.cfg.Start)
	}
	for _, r := range s.cfg.Faults {
		s.AddFault(r) //nolint:errcheck // New has refused bad ones
	}
}
