package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-relay/weir/checkpoint"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// Config is what a relay is made of.
type Config struct {
	// Pool reaches the database. Its connections must have machine.SessionParameters; Open makes such a
	// pool. A relay uses two connections a lane, and two more.
	Pool *pgxpool.Pool
	// Replication is the doorbell. Nil: there is none, and the relay polls.
	Replication *replication.Config
	// Policy says how often and how long an item is tried. Defaults to machine.DefaultPolicy.
	Policy machine.Policy
	// Lanes are the exporters. At least one.
	Lanes []LaneConfig
	// Owner names this relay in lease_owner, for people. Defaults to host:pid.
	Owner string
	// PollInterval is the time between sweeps while there is no stream. Defaults to 1 second.
	PollInterval time.Duration
	// SweepInterval is the time between sweeps while there is one, in case a wake was lost that nobody
	// thought of. Defaults to 10 minutes.
	SweepInterval time.Duration
	// AuditInterval is the time between audits of the state counts, each of which reads the whole table once.
	// Defaults to 6 hours.
	AuditInterval time.Duration
	// Grace bounds the wait for calls in flight at shutdown. Defaults to 30 seconds.
	Grace time.Duration
	// Registerer takes the metrics. Defaults to a registry of the relay's own.
	Registerer prometheus.Registerer
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// OnReady is called once, when the relay delivers.
	OnReady func()
	// OnShutdown is called once, when the last item is settled and the last position confirmed.
	OnShutdown func()
}

// Open makes a pool of at most size connections, or of as many as a relay with so many lanes needs.
func Open(ctx context.Context, url string, lanes, size int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("relay: database URL: %w", err)
	}
	for name, value := range machine.SessionParameters() {
		config.ConnConfig.RuntimeParams[name] = value
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "weir"
	}
	// The pool would ping a connection that was idle for a second: before each claim of an item that comes alone,
	// and each look at the slot. Whoever finds the connection dead tries again anyway.
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > time.Minute }
	config.MaxConns = int32(max(size, 2*lanes+2))
	return pgxpool.NewWithConfig(ctx, config)
}

func (c Config) withDefaults() Config {
	if c.Policy == (machine.Policy{}) {
		c.Policy = machine.DefaultPolicy()
	}
	if c.Owner == "" {
		host, _ := os.Hostname()
		c.Owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if c.PollInterval == 0 {
		c.PollInterval = time.Second
	}
	if c.SweepInterval == 0 {
		c.SweepInterval = 10 * time.Minute
	}
	if c.AuditInterval == 0 {
		c.AuditInterval = 6 * time.Hour
	}
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	if c.Pool == nil {
		return errors.New("relay: Pool is missing: make one with Open")
	}
	if len(c.Lanes) == 0 {
		return errors.New("relay: there is no lane: name at least one exporter")
	}
	if err := c.Policy.Validate(); err != nil {
		return err
	}
	if c.PollInterval < 0 || c.SweepInterval < 0 || c.AuditInterval < 0 || c.Grace < 0 {
		return errors.New("relay: PollInterval, SweepInterval, AuditInterval and Grace must be above zero")
	}
	seen := map[string]bool{}
	for _, l := range c.Lanes {
		if err := l.validate(c.Policy); err != nil {
			return err
		}
		if seen[l.Name] {
			return fmt.Errorf("relay: there are two lanes %q: each exporter has one", l.Name)
		}
		seen[l.Name] = true
	}
	return nil
}

// Relay delivers a database's items.
type Relay struct {
	config Config
	log    *slog.Logger
	store  *machine.Store
	book   *checkpoint.Book
	bell   *doorbell
	stream *replication.Stream // nil without a doorbell
	lanes  []*Lane
}

// New makes a relay. Nothing happens before Run or Pass.
func New(c Config) (*Relay, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, fmt.Errorf("relay: register metrics: %w", err)
	}
	r := &Relay{
		config: c,
		log:    c.Logger,
		store:  machine.NewStore(c.Pool, c.Policy),
		book:   checkpoint.NewBook(c.Pool, c.Logger),
	}
	r.bell = &doorbell{lanes: make(map[string]*Lane), metrics: m}
	for _, lc := range c.Lanes {
		l := newLane(lc, c.Owner, r.store, c.Logger, m.lane(lc.Name))
		r.lanes = append(r.lanes, l)
		r.bell.lanes[lc.Name] = l
	}
	if c.Replication != nil {
		rc := *c.Replication
		rc.DB, rc.Logger = c.Pool, c.Logger
		r.stream = replication.New(rc, handlers{r.book, r.bell}, r.book)
	}
	if err := c.Registerer.Register(&collector{r}); err != nil {
		return nil, fmt.Errorf("relay: register metrics: %w", err)
	}
	return r, nil
}

// Run delivers until ctx ends, and then stops in order. It returns nil after an orderly stop, and an error
// only where running makes no sense: the database refuses the credentials of a start.
//
// ORDER of the stop: no more claims; calls in flight end, or are cut off after Grace; their outcomes are
// settled, and what was not sent is handed back; the last checkpoint is written; the server is told; the
// stream ends.
func (r *Relay) Run(ctx context.Context) error {
	if err := r.greet(ctx); err != nil {
		return err
	}
	outer := context.WithoutCancel(ctx)
	streaming, stopStream := context.WithCancel(outer)
	defer stopStream()
	claiming, stopClaims := context.WithCancelCause(ctx)
	defer stopClaims(nil)

	var stream, lanes sync.WaitGroup
	stream.Go(func() { _ = r.book.Run(streaming) })
	if r.stream != nil {
		stream.Go(func() {
			if err := r.follow(streaming); err != nil {
				stopClaims(err)
			}
		})
		lanes.Go(func() { r.auditor(claiming) })
	} else {
		r.log.Warn("running without the doorbell: items are found by polling", "every", r.config.PollInterval)
	}
	for _, l := range r.lanes {
		l.agenda.sweep()
		lanes.Go(func() { l.run(claiming, r.config.Grace) })
	}
	lanes.Go(func() { r.tick(claiming) })
	lanes.Go(func() { r.watch(claiming) })
	if r.config.OnReady != nil {
		r.config.OnReady()
	}

	<-claiming.Done()
	lanes.Wait()
	stopStream()
	stream.Wait()
	if r.config.OnShutdown != nil {
		r.config.OnShutdown()
	}
	if ctx.Err() == nil {
		return context.Cause(claiming)
	}
	return nil
}

// greet asks the database whether it knows the pool's user. One that doesn't answer is tried again by the lanes.
func (r *Relay) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := r.config.Pool.Ping(ctx); refused(err) {
		return fmt.Errorf("relay: the database refuses the pool's user, password or database; correct its URL: %w", err)
	}
	return nil
}

// followAgain is the pause before the stream is tried again after an error that a person has to mend.
const followAgain = time.Minute

// follow keeps the stream going. Where it can't, because logical decoding isn't to be had, the relay goes on
// without it and says so. Credentials that were refused before they ever worked end it: somebody is watching a
// start.
func (r *Relay) follow(ctx context.Context) error {
	for {
		err := r.stream.Run(ctx)
		if err == nil {
			return nil
		}
		if refused(err) && !r.bell.rung.Load() {
			return err
		}
		r.log.Error("running without the doorbell: items are found by polling until this is mended",
			"error", err, "poll_interval", r.config.PollInterval, "tries_again_in", followAgain)
		if wait(ctx, followAgain); ctx.Err() != nil {
			return nil
		}
	}
}

// refused says that the server doesn't know the replication URL's user, password or database.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000")
}

// tick sweeps: often the lanes that nobody rings for, rarely the others.
func (r *Relay) tick(ctx context.Context) {
	poll := time.NewTicker(r.config.PollInterval)
	defer poll.Stop()
	slow := time.NewTicker(r.config.SweepInterval)
	defer slow.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			for _, l := range r.lanes {
				if !l.streaming.Load() {
					l.agenda.sweep()
				}
			}
		case <-slow.C:
			for _, l := range r.lanes {
				l.agenda.sweep()
			}
		}
	}
}
