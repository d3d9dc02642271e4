package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// LaneConfig is one lane: an exporter and how its items are ordered.
type LaneConfig struct {
	// Name is the value of the outbox's column exporter.
	Name string
	// Exporter sends the items.
	Exporter exporter.Exporter
	// Order is the ordering policy. Defaults to best effort.
	Order machine.Order
}

// The bounds of what a lane holds and does at once.
const (
	agendaBound = 8192 // ids that are ready, and as many that are later; more become a sweep
	claimBound  = 1000 // items of one claim
	settleBound = 1000 // items of one settle
)

// Lane takes one exporter's items from the doorbell to their settled state:
//
//	agenda ─▶ claim ─▶ deliver (a goroutine a call) ─▶ settle
//
// ORDER: free slots and rate-limit tokens first, then the claim, then the call; a settle after its call. What
// arrives while a claim is in flight forms the next claim, and likewise with settles, so that batches grow
// with the load and nothing waits for a batch to fill.
type Lane struct {
	name    string
	order   machine.Order
	owner   string
	export  exporter.Exporter
	key     func(*machine.Item) string // nil: items may be in flight together
	limits  exporter.Limits
	limiter *rate.Limiter // of calls; nil: no bound
	store   *machine.Store
	log     *slog.Logger
	metrics *laneMetrics

	agenda  *agenda
	gate    gate
	settler *settler
	pass    pass

	streaming atomic.Bool  // somebody rings: set by the stream, read by the ticker
	progress  atomic.Int64 // Unix nanoseconds; set whenever the lane gets somewhere

	mu     sync.Mutex
	held   int // items that are claimed and not yet delivered
	queues map[string]*queue
	oldest time.Duration // age of the oldest open item at the last look
	freed  chan struct{} // holds a token when held has fallen
}

func newLane(c LaneConfig, owner string, store *machine.Store, log *slog.Logger, metrics *laneMetrics) *Lane {
	l := &Lane{
		name:    c.Name,
		order:   c.Order,
		owner:   owner,
		export:  c.Exporter,
		limits:  c.Exporter.Limits(),
		store:   store,
		log:     log.With("lane", c.Name),
		metrics: metrics,
		agenda:  newAgenda(agendaBound),
		queues:  make(map[string]*queue),
		freed:   make(chan struct{}, 1),
	}
	if keyed, ok := c.Exporter.(exporter.Keyed); ok {
		l.key = keyed.Key
	}
	if l.limits.Rate > 0 {
		// A twentieth of a second's worth may go at once: enough for a batch, too little to be noticed.
		l.limiter = rate.NewLimiter(rate.Limit(l.limits.Rate), max(1, int(l.limits.Rate/20)))
	}
	l.settler = newSettler(l)
	return l
}

// validate checks what the exporter says of itself against the policy.
func (c LaneConfig) validate(p machine.Policy) error {
	if c.Name == "" || c.Exporter == nil {
		return errors.New("relay: a lane needs a name and an exporter")
	}
	limits := c.Exporter.Limits()
	switch {
	case limits.Calls < 1 || limits.Batch < 1 || limits.Timeout <= 0:
		return fmt.Errorf("relay: lane %s: limits %+v: calls, batch and timeout must be above zero", c.Name, limits)
	case limits.Timeout >= p.Lease:
		return fmt.Errorf("relay: lane %s: one send may take %v, but the lease ends after %v and somebody else would send too: lengthen the lease or shorten the timeout",
			c.Name, limits.Timeout, p.Lease)
	}
	return nil
}

// run claims until ctx ends, then waits for what is in flight, at most for grace, and settles it. What was
// claimed and not sent is handed back.
func (l *Lane) run(ctx context.Context, grace time.Duration) {
	// Calls outlive ctx by the grace, settles by twice that.
	sending, stopSending := context.WithCancelCause(context.WithoutCancel(ctx))
	settling, stopSettling := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSettling()
	settled := make(chan struct{})
	go func() { l.settler.run(settling); close(settled) }()

	l.claimLoop(ctx, sending)

	deadline := time.AfterFunc(grace, func() {
		stopSending(errors.New("the relay is shutting down"))
	})
	defer deadline.Stop()
	l.handBackQueued()
	l.waitIdle()
	stopSending(nil)
	l.settler.close()
	last := time.AfterFunc(grace, stopSettling)
	defer last.Stop()
	<-settled
}

// claimLoop claims and sends until ctx ends.
func (l *Lane) claimLoop(ctx, sending context.Context) {
	var failures int
	for ctx.Err() == nil {
		n, again := l.capacity(time.Now())
		if n == 0 {
			l.wait(ctx, again, false)
			continue
		}
		claimed, err := l.claim(ctx, n)
		l.deliver(sending, claimed)
		if err != nil {
			l.gate.idle()
			if ctx.Err() != nil {
				return
			}
			// The wakes of this claim are lost with it.
			l.agenda.sweep()
			failures++
			pause := machine.Jitter(min(100*time.Millisecond<<min(failures, 6), 5*time.Second))
			l.log.Error("items were not claimed; weir tries again", "error", err, "in", pause)
			wait(ctx, pause)
			continue
		}
		failures = 0
		l.moved()
		if len(claimed.items) == 0 {
			l.gate.idle()
			if !claimed.more {
				l.wait(ctx, l.due(), true)
			}
		}
	}
}

// moved records that the lane got somewhere.
func (l *Lane) moved() { l.progress.Store(time.Now().UnixNano()) }

// wait waits for a freed slot, for again, and where work says so for something to do.
func (l *Lane) wait(ctx context.Context, again time.Time, work bool) {
	var signal <-chan struct{}
	if work {
		signal = l.agenda.signal
	}
	var fires <-chan time.Time
	if !again.IsZero() {
		timer := time.NewTimer(time.Until(again))
		defer timer.Stop()
		fires = timer.C
	}
	select {
	case <-ctx.Done():
	case <-signal:
	case <-l.freed:
	case <-fires:
	}
}

// due is when there will be something to do without anybody ringing.
func (l *Lane) due() time.Time {
	next := l.agenda.next()
	if again := l.pass.again; !again.IsZero() && (next.IsZero() || again.Before(next)) {
		next = again
	}
	return next
}

// capacity answers how many items can be sent at once at now, and when to ask again where that is none.
func (l *Lane) capacity(now time.Time) (n int, again time.Time) {
	l.mu.Lock()
	n = l.limits.Calls*l.limits.Batch - l.held
	l.mu.Unlock()
	if n = min(n, claimBound); n <= 0 || l.settler.full() {
		return 0, time.Time{}
	}
	if l.limiter != nil {
		tokens := l.limiter.TokensAt(now)
		if tokens < 1 {
			wait := time.Duration((1 - tokens) / l.limits.Rate * float64(time.Second))
			l.metrics.rateWait.Add(wait.Seconds())
			return 0, now.Add(wait)
		}
		n = min(n, int(tokens)*l.limits.Batch)
	}
	return l.gate.admit(n, now)
}
