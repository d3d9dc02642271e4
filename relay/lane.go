package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// statementTimeout bounds each statement, so that a database that takes a connection and never answers
// is noticed. A claim that runs into it may have leased items; they are free again when their leases expire.
const statementTimeout = time.Minute

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
	window  *window
	gate    gate
	settler *settler
	pass    pass

	streaming atomic.Bool  // somebody rings: set by the stream, read by the ticker
	reached   atomic.Bool  // the database has answered; never unset
	progress  atomic.Int64 // Unix nanoseconds; set when run begins and whenever the lane gets somewhere

	mu     sync.Mutex
	held   int // items that are claimed and not yet delivered
	slots  int // of the window's that are taken
	queues map[string]*queue
	oldest time.Duration // age of the oldest open item at the last look
	person int64         // items that waited for a person then
	freed  chan struct{} // holds a token when slots has fallen, or the gate or the settler makes room
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
	l.window = newWindow(l.limits.Calls)
	l.settler = newSettler(l)
	return l
}

// validate checks what the exporter says of itself against the policy.
func (c LaneConfig) validate(p machine.Policy) error {
	if c.Name == "" || c.Exporter == nil {
		return errors.New("relay: a lane needs a name and an exporter")
	}
	if c.Order != "" && !slices.Contains(machine.Orders, c.Order) {
		return fmt.Errorf("relay: lane %s: there is no order %q: use one of %q", c.Name, c.Order, machine.Orders)
	}
	limits := c.Exporter.Limits()
	switch {
	case limits.Calls < 1 || limits.Batch < 1 || limits.Timeout <= 0:
		return fmt.Errorf("relay: lane %s: limits %+v: calls, batch and timeout must be above zero", c.Name, limits)
	case limits.Rate < 0:
		return fmt.Errorf("relay: lane %s: limits %+v: the rate must not be below zero; zero is no bound", c.Name, limits)
	case limits.Timeout >= p.Lease:
		return fmt.Errorf("relay: lane %s: one send may take %v, but the lease ends after %v and somebody else would send too: lengthen the lease or shorten the timeout",
			c.Name, limits.Timeout, p.Lease)
	}
	return nil
}

// run claims until ctx ends, then waits for what is in flight, at most for grace, and settles it. What was
// claimed and not sent is handed back.
func (l *Lane) run(ctx context.Context, grace time.Duration) {
	l.progress.Store(time.Now().UnixNano())
	// Claims and calls outlive ctx by the grace, settles by twice that: a claim that was cut off could have
	// leased what nobody hears of.
	sending, stopSending := context.WithCancelCause(context.WithoutCancel(ctx))
	settling, stopSettling := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	settled := make(chan struct{})
	done.Go(func() { l.settler.run(settling); close(settled) })
	done.Go(func() {
		<-ctx.Done()
		wait(settling, grace)
		stopSending(errors.New("the relay is shutting down"))
		wait(settling, grace)
		stopSettling()
	})

	l.claimLoop(ctx, sending)
	l.handBackQueued()
	l.waitIdle(settling)
	l.settler.close()
	<-settled
	stopSettling()
	done.Wait()
}

// claimLoop claims and sends until ctx ends.
func (l *Lane) claimLoop(ctx, sending context.Context) {
	var failures int
	for ctx.Err() == nil {
		room := l.capacity(time.Now())
		if room.n == 0 {
			began := time.Now()
			if l.wait(ctx, room.again, false); room.rated {
				l.metrics.rateWait.Add(time.Since(began).Seconds())
			}
			continue
		}
		claimed, err := l.claim(sending, room.n)
		claimed.probe = room.probe
		if room.probe && len(claimed.items) == 0 {
			l.gate.withdraw()
		}
		l.deliver(sending, claimed)
		if err != nil {
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
		if !claimed.more {
			l.wait(ctx, l.due(), true)
		}
	}
}

// moved records that the lane got somewhere.
func (l *Lane) moved() {
	l.reached.Store(true)
	l.progress.Store(time.Now().UnixNano())
}

// wait waits for again, and where work says so for something to do, elsewhere for room.
func (l *Lane) wait(ctx context.Context, again time.Time, work bool) {
	signal := l.freed
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
	case <-fires:
	}
}

// due is when there will be something to do without anybody ringing.
func (l *Lane) due() time.Time {
	next := l.agenda.next(time.Now())
	if again := l.pass.again; !again.IsZero() && again.Before(next) {
		next = again
	}
	return next
}

// perCall is how many items one call takes: items with keys go alone.
func (l *Lane) perCall() int {
	if l.key != nil {
		return 1
	}
	return l.limits.Batch
}

// capacity answers how many items can be sent at once at now.
func (l *Lane) capacity(now time.Time) admission {
	l.mu.Lock()
	calls := l.window.calls() - l.slots
	l.mu.Unlock()
	if calls <= 0 || l.settler.full() {
		return admission{}
	}
	if l.limiter != nil {
		tokens := l.limiter.TokensAt(now)
		if tokens < 1 {
			wait := time.Duration((1 - tokens) / l.limits.Rate * float64(time.Second))
			return admission{again: now.Add(wait), rated: true}
		}
		calls = min(calls, int(tokens))
	}
	return l.gate.admit(min(calls*l.perCall(), claimBound), now)
}

// spend takes a slot for a call that begins, and its rate-limit token, so that the next claim sees what is left.
func (l *Lane) spend() {
	l.mu.Lock()
	l.slots++
	l.mu.Unlock()
	l.spendToken()
}

func (l *Lane) spendToken() {
	if l.limiter != nil {
		l.limiter.ReserveN(time.Now(), 1)
	}
}
