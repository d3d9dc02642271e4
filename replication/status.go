package replication

import (
	"maps"
	"sync"
	"time"
)

// Mode is what the stream is doing.
type Mode string

// The modes. Changes arrive in Streaming only; in all others whoever delivers has to poll.
const (
	Connecting Mode = "connecting" // to the server, or waiting until it is time to try again
	Standby    Mode = "standby"    // another process has the slot; this one takes over when it ends
	Creating   Mode = "creating"   // making a slot, which waits for every transaction that is running now
	Streaming  Mode = "streaming"
	Sweeping   Mode = "sweeping" // not trying: Status.Reason says why
)

// Status is a copy of how the stream stands.
//
// Invariant: Confirmed <= Received.
type Status struct {
	Mode   Mode      `json:"mode"`
	Since  time.Time `json:"since"`  // when Mode was entered
	Reason string    `json:"reason"` // why not streaming, where there is more to say than Mode does

	Received    LSN       `json:"received"`     // everything that ended before it has been handed over
	Confirmed   LSN       `json:"confirmed"`    // what the server was told last: it may forget everything before
	ServerEnd   LSN       `json:"server_end"`   // how far the server is known to have read, or written where DB is set
	LastCommit  time.Time `json:"last_commit"`  // commit of the latest transaction that was received, by the server's clock
	LastMessage time.Time `json:"last_message"` // when the server was last heard
	LagBytes    uint64    `json:"lag_bytes"`    // ServerEnd - Received: written, but not yet handed over
	// LagSeconds is how long ago, by the server's clock, the transaction committed that is being received;
	// 0 when nothing is. While not streaming: how long that has lasted.
	LagSeconds float64 `json:"lag_seconds"`

	Reconnects  int64            `json:"reconnects"`  // sessions that ended otherwise than by Run's context
	Recreations map[string]int64 `json:"recreations"` // slots made in place of another, by reason: see the Reason constants

	Slot SlotInfo `json:"slot"` // as DB saw it at SlotAt, or at the latest connection without DB
	// SlotAt is the zero time before the first look.
	SlotAt time.Time `json:"slot_at"`
}

// state is Status as the stream writes it. The stream's goroutine and the watch's write, anybody reads.
type state struct {
	mu        sync.Mutex
	status    Status
	lag       time.Duration // of what was received last
	stoppedAt time.Time     // when streaming ended; zero while it goes on
}

// change runs f with the lock held.
func (s *state) change(f func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

func (s *state) enter(mode Mode, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.status.Mode != mode {
		s.status.Since = now
	}
	switch {
	case mode == Streaming:
		s.stoppedAt = time.Time{}
	case s.stoppedAt.IsZero():
		s.stoppedAt = now
	}
	s.status.Mode, s.status.Reason = mode, reason
}

// begin records that a stream starts at at, perhaps in another log than the one before. It answers the
// latest commit that is known.
func (s *state) begin(at LSN) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.status
	st.Received, st.Confirmed, st.ServerEnd = at, at, at
	st.LastMessage = time.Now()
	s.lag = 0
	return st.LastCommit
}

// progress records what the stream knows after a message.
func (s *state) progress(received, serverEnd LSN, commit time.Time, lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.status
	st.Received = received
	st.ServerEnd = max(st.ServerEnd, serverEnd)
	st.LastCommit = commit
	st.LastMessage = time.Now()
	s.lag = lag
}

func (s *state) sawSlot(info SlotInfo) {
	s.change(func(st *Status) {
		st.Slot, st.SlotAt = info, time.Now()
		st.ServerEnd = max(st.ServerEnd, info.ServerLSN)
	})
}

// snapshot copies the status and works out the lags.
func (s *state) snapshot() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.status
	out.Recreations = maps.Clone(out.Recreations)
	if out.ServerEnd > out.Received && out.Received > 0 {
		out.LagBytes = uint64(out.ServerEnd - out.Received)
	}
	out.LagSeconds = s.lag.Seconds()
	if !s.stoppedAt.IsZero() {
		out.LagSeconds = time.Since(s.stoppedAt).Seconds()
	}
	return out
}
