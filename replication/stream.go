package replication

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-relay/weir/machine"
)

// Stream keeps one slot read, over as many connections as it takes.
type Stream struct {
	config  Config
	handler Handler
	ledger  Ledger
	log     *slog.Logger
	state   state
	running atomic.Bool

	// What one session leaves for the next, touched by Run's goroutine only.
	source   Source    // the log that was streamed last
	remake   string    // why the slot has to be made anew; "" where it has not
	streamed time.Time // when the session began to stream; zero where it didn't
}

// New makes a stream that tells handler what it reads and asks ledger where it stands. Run says whether
// config is right.
func New(config Config, handler Handler, ledger Ledger) *Stream {
	config = config.withDefaults()
	s := &Stream{config: config, handler: handler, ledger: ledger, log: config.Logger.With("slot", config.Slot)}
	s.state.enter(Connecting, "")
	return s
}

// Status answers how the stream stands. Any goroutine may ask at any time.
func (s *Stream) Status() Status { return s.state.snapshot() }

// Run streams until ctx ends, and then returns nil after the last checkpoint and status update. Otherwise
// it returns a *PermanentError; everything else is tried again.
//
// The handler is in the state Stopped when Run begins and when it returns.
func (s *Stream) Run(ctx context.Context) error {
	if err := s.config.Validate(); err != nil {
		return permanent(err, "correct the configuration")
	}
	if !s.running.CompareAndSwap(false, true) {
		return permanent(errors.New("this stream runs already"), "make another one")
	}
	defer s.running.Store(false)
	reason := ""
	for failures := 0; ; failures++ {
		s.state.enter(Connecting, reason)
		s.streamed = time.Time{}
		err := s.watched(ctx)
		if ctx.Err() != nil {
			s.state.enter(Sweeping, "shut down")
			return nil
		}
		if s.gaveUp(err) {
			s.state.enter(Sweeping, err.Error())
			return err
		}
		if !s.streamed.IsZero() && time.Since(s.streamed) > s.config.BackoffMax {
			failures = 0
		}
		reason = err.Error()
		s.state.enter(Connecting, reason)
		s.state.change(func(st *Status) { st.Reconnects++ })
		delay := s.config.backoff(failures)
		s.log.Warn("replication: interrupted; items are found by sweeping until the stream is back", "error", err, "retry_in", delay)
		if pause(ctx, delay) != nil {
			s.state.enter(Sweeping, "shut down")
			return nil
		}
	}
}

// gaveUp says whether err ends Run, and keeps what the next session has to know.
func (s *Stream) gaveUp(err error) bool {
	var p *PermanentError
	switch {
	case errors.As(err, &p):
		return true
	case errors.Is(err, errFuse):
		s.remake = ReasonFuse
	case errors.Is(err, errUnpublished), sqlState(err) == undefinedObject && !s.streamed.IsZero():
		// The publication is there, or the session had not got so far: the slot begins before it was made,
		// and reads with the catalog of that time. Only a new slot sees it.
		s.remake = ReasonPublication
	}
	return false
}

// watched is a session with somebody to look after its slot.
func (s *Stream) watched(ctx context.Context) error {
	if s.config.DB == nil {
		return classify(s.session(ctx))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(ctx, cancel) })
	err := s.session(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	watch.Wait()
	return classify(err)
}

// watch looks at the slot every StatusInterval, on another connection, and ends the session when the slot
// retains too much.
func (s *Stream) watch(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(s.config.StatusInterval)
	defer tick.Stop()
	for {
		info, err := s.look(ctx)
		mode := s.Status().Mode
		switch {
		case err != nil:
			s.log.Debug("replication: slot not seen", "error", err)
		case s.config.Fuse > 0 && info.RetainedBytes > s.config.Fuse && (mode == Streaming || mode == Creating):
			end(errFuse)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Stream) look(ctx context.Context) (SlotInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	info, err := Inspect(ctx, s.config.DB, s.config.Slot)
	if err == nil {
		s.state.sawSlot(info)
	}
	return info, err
}

// backoff is the pause after so many failures in a row.
func (c Config) backoff(failures int) time.Duration {
	delay := c.BackoffMin
	for ; failures > 0 && delay < c.BackoffMax; failures-- {
		delay *= 2
	}
	return machine.Jitter(min(delay, c.BackoffMax))
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
