package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-relay/weir/checkpoint"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// Status is a copy of how a relay stands.
type Status struct {
	Owner string `json:"owner"`
	// Stream is nil without a doorbell.
	Stream *replication.Status `json:"stream,omitempty"`
	// Checkpoint is nil until this relay has led.
	Checkpoint *checkpoint.View `json:"checkpoint,omitempty"`
	Lanes      []LaneStatus     `json:"lanes"`
}

// LaneStatus is a copy of how a lane stands.
type LaneStatus struct {
	Name      string        `json:"name"`
	Order     machine.Order `json:"order"`
	Held      int           `json:"held"`      // claimed and not yet delivered
	Window    int           `json:"window"`    // calls that may be in flight
	Unsettled int           `json:"unsettled"` // delivered and not yet settled
	Ready     int           `json:"ready"`     // woken and not yet claimed
	Later     int           `json:"later"`     // waiting for their time
	Sweeping  bool          `json:"sweeping"`  // a look at the whole table is owed
	Paused    string        `json:"paused"`    // why it doesn't claim; "" if it does
	// OldestSeconds is the age of the oldest open item, as of the last look; 0 where there is none.
	OldestSeconds float64   `json:"oldest_pending_age_seconds"`
	Attention     int64     `json:"attention"` // items that wait for a person, as of the last look
	Progress      time.Time `json:"progress"`  // when it last claimed, delivered or settled, or found nothing to do
}

// Status copies how the relay stands. Any goroutine may ask at any time.
func (r *Relay) Status() Status {
	s := Status{Owner: r.config.Owner}
	if r.stream != nil {
		stream := r.stream.Status()
		s.Stream = &stream
	}
	if view, ok := r.book.View(); ok {
		s.Checkpoint = &view
	}
	for _, l := range r.lanes {
		s.Lanes = append(s.Lanes, l.status())
	}
	return s
}

func (l *Lane) status() LaneStatus {
	s := LaneStatus{Name: l.name, Order: l.order, Paused: l.gate.paused(), Progress: l.progressed()}
	if s.Order == "" {
		s.Order = machine.BestEffort
	}
	s.Ready, s.Later, s.Sweeping = l.agenda.depth()
	s.Unsettled = l.settler.depth()
	s.Window = l.window.calls()
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Held = l.held
	s.OldestSeconds = l.oldest.Seconds()
	s.Attention = l.person
	return s
}

// progressed is when the lane got somewhere last. While outcomes wait to be written, nothing else counts.
func (l *Lane) progressed() time.Time {
	var at time.Time
	if n := l.progress.Load(); n != 0 {
		at = time.Unix(0, n)
	}
	if since := l.settler.stuck(); !since.IsZero() && since.Before(at) {
		at = since
	}
	return at
}

// stuckAfter is how long a lane that has something to do may go without progress.
const stuckAfter = time.Minute

// Health answers for progress: an error names the first lane that has something to do and gets nowhere. A
// pause for the provider's sake is no lack of progress, and an idle lane neither.
func (r *Relay) Health() error {
	for _, l := range r.lanes {
		s := l.status()
		busy := s.Unsettled > 0 || s.Paused == "" && (s.Ready > 0 || s.Sweeping || s.Held > 0)
		// One call may rightly take up to its timeout, and as long again in a queue behind another.
		if stuck := time.Since(s.Progress); busy && stuck > stuckAfter+l.limits.Timeout {
			return fmt.Errorf("lane %s has made no progress for %v with %d items ready, %d held and %d unsettled: see the log; the database may be out of reach",
				s.Name, stuck.Round(time.Second), s.Ready, s.Held, s.Unsettled)
		}
	}
	return nil
}

// Ready answers whether every lane has reached the database.
func (r *Relay) Ready() error {
	for _, l := range r.lanes {
		if !l.reached.Load() {
			return fmt.Errorf("lane %s has not reached the database yet", l.name)
		}
	}
	return nil
}

// streaming is nil while this relay streams, and says what it does instead.
func (r *Relay) streaming() error {
	if r.stream == nil {
		return errors.New("there is no doorbell")
	}
	if s := r.stream.Status(); s.Mode != replication.Streaming {
		return fmt.Errorf("the stream is %s: %s", s.Mode, s.Reason)
	}
	return nil
}

// watch looks at what waits, for the relay and for people, at the stream's own pace.
func (r *Relay) watch(ctx context.Context) {
	every := 10 * time.Second
	if r.config.Replication != nil && r.config.Replication.StatusInterval > 0 {
		every = r.config.Replication.StatusInterval
	}
	names := make([]string, len(r.lanes))
	for i, l := range r.lanes {
		names[i] = l.name
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ages, err := r.store.Oldest(ctx, names)
		waiting, werr := r.store.Attention(ctx, names)
		if err == nil && werr == nil {
			for _, l := range r.lanes {
				l.mu.Lock()
				l.oldest, l.person = ages[l.name], waiting[l.name]
				l.mu.Unlock()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
