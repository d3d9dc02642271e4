package replication

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-relay/weir/machine"
)

// Why a slot is made. All but the first are counted in Status.Recreations.
const (
	ReasonFirst       = "first"          // neither a slot nor a position: weir is new here
	ReasonMissing     = "slot_missing"   // dropped, or not synchronised to the standby that is now the primary
	ReasonLost        = "slot_lost"      // WAL that it needs was removed, or the server invalidated it
	ReasonUncounted   = "no_position"    // the ledger has no position in this log
	ReasonAhead       = "slot_ahead"     // somebody moved the slot past what is counted
	ReasonRewound     = "log_rewound"    // the log ends before what is counted: an old copy of the server runs
	ReasonSystem      = "other_system"   // the server is another one: restored, or the URL's name moved
	ReasonTimeline    = "other_timeline" // a standby was promoted
	ReasonPublication = "publication"    // the slot begins before its publication was made
	ReasonFuse        = "fuse"           // it retained more WAL than Config.Fuse
)

// Reasons lists those that Status.Recreations counts.
func Reasons() []string {
	return []string{ReasonMissing, ReasonLost, ReasonUncounted, ReasonAhead, ReasonRewound, ReasonSystem, ReasonTimeline,
		ReasonPublication, ReasonFuse}
}

// standbyPause is how often a process that stands by tries to lead.
const standbyPause = time.Second

// session is the life of one connection.
//
// THE ORDER: lock, fuse, publication, slot, position, stream. A slot is judged and dropped only by who holds
// the lock. A slot that retains too much goes even where nothing can be streamed. And the publication is
// there before a slot is made, since a slot reads with the catalog of its own time.
func (s *Stream) session(ctx context.Context) error {
	c, err := connect(ctx, s.config)
	if err != nil {
		return err
	}
	defer c.close()
	source, err := c.identify(ctx)
	if err != nil {
		return err
	}
	if err := c.checkServer(ctx); err != nil {
		return err
	}
	slot, err := s.lead(ctx, c)
	if err != nil {
		return err
	}
	if slot, err = s.relieve(ctx, c, slot); err != nil {
		return err
	}
	if err := c.checkPublication(ctx); err != nil {
		return err
	}
	at, err := s.position(ctx, c, source, slot)
	if err != nil {
		return err
	}
	return s.stream(ctx, c, source, at)
}

// lead waits until nobody else has the slot, and answers what the slot is like then.
func (s *Stream) lead(ctx context.Context, c *connection) (SlotInfo, error) {
	for mine := false; ; {
		var err error
		if !mine {
			if mine, err = c.tryLock(ctx); err != nil {
				return SlotInfo{}, err
			}
		}
		slot, err := c.inspect(ctx)
		if err != nil {
			return SlotInfo{}, err
		}
		s.state.sawSlot(slot)
		if mine && !slot.Active {
			return slot, nil
		}
		reason := fmt.Sprintf("the slot is in use by pid %d", slot.ActivePID)
		if !mine {
			reason = "another process leads"
			s.remake = "" // whoever leads sees to it
		}
		if s.Status().Mode != Standby {
			s.log.Info("replication: standing by", "reason", reason, "slot_pid", slot.ActivePID)
		}
		s.state.enter(Standby, reason)
		if err := pause(ctx, machine.Jitter(standbyPause)); err != nil {
			return SlotInfo{}, err
		}
	}
}

// relieve drops the slot if it retains more than the fuse allows.
func (s *Stream) relieve(ctx context.Context, c *connection, slot SlotInfo) (SlotInfo, error) {
	if err := c.checkOwn(slot); err != nil {
		return slot, err
	}
	if s.config.Fuse == 0 || slot.RetainedBytes <= s.config.Fuse {
		return slot, nil
	}
	if err := c.drop(ctx, s.config.Slot); err != nil {
		return slot, err
	}
	s.log.Error("replication: slot dropped, it retained more than the fuse allows",
		"retained_bytes", slot.RetainedBytes, "fuse_bytes", s.config.Fuse)
	s.remake = ReasonFuse
	return SlotInfo{}, nil
}

// position answers where the stream goes on, after making the slot where there is none to go on with.
func (s *Stream) position(ctx context.Context, c *connection, source Source, slot SlotInfo) (LSN, error) {
	at, err := s.ledger.Resume(ctx, source)
	if err != nil {
		return 0, fmt.Errorf("%w: resume: %w", errLedger, err)
	}
	reason := s.judge(source, slot, at)
	if reason == "" {
		return at, nil
	}
	return s.make(ctx, c, source, slot, reason)
}

// judge answers why the stream can't go on at at with this slot; "" where it can.
func (s *Stream) judge(source Source, slot SlotInfo, at LSN) string {
	switch {
	case s.remake != "":
		return s.remake
	case at == 0 && s.source.SystemID != "" && s.source.SystemID != source.SystemID:
		return ReasonSystem
	case at == 0 && s.source.SystemID != "" && s.source.Timeline != source.Timeline:
		return ReasonTimeline
	case slot.Lost():
		return ReasonLost
	case !slot.Exists && at == 0:
		return ReasonFirst
	case !slot.Exists:
		return ReasonMissing
	case at == 0:
		return ReasonUncounted
	case slot.Confirmed == 0 || slot.Confirmed > at:
		return ReasonAhead
	case at > slot.ServerLSN:
		return ReasonRewound
	}
	return ""
}

// make makes the slot, in place of the one that is there.
func (s *Stream) make(ctx context.Context, c *connection, source Source, slot SlotInfo, reason string) (LSN, error) {
	if reason == ReasonFirst {
		s.log.Info("replication: making the slot; this waits for all running transactions")
	} else {
		s.log.Error("replication: making the slot anew and counting anew; no item is lost, sweeping finds them", "reason", reason)
	}
	if slot.Exists {
		if err := c.drop(ctx, source.Slot); err != nil {
			return 0, err
		}
	}
	if reason == ReasonFuse {
		s.state.enter(Sweeping, "fuse: the slot retained too much write-ahead log and was dropped")
		if err := pause(ctx, s.config.FuseRest); err != nil {
			return 0, err
		}
	}
	s.state.enter(Creating, reason)
	at, err := c.create(ctx, s.ledger, source)
	if err != nil {
		return 0, err
	}
	s.remake = ""
	if reason != ReasonFirst {
		s.state.change(func(st *Status) {
			if st.Recreations == nil {
				st.Recreations = map[string]int64{}
			}
			st.Recreations[reason]++
		})
	}
	return at, nil
}

// stream reads from at until the connection or ctx ends. It never returns nil.
func (s *Stream) stream(ctx context.Context, c *connection, source Source, at LSN) error {
	w, err := c.hijack(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	undo := w.interruptOn(ctx)
	defer undo()
	if err := w.start(ctx, source.Slot, s.config.Publication, at); err != nil {
		return fmt.Errorf("start replication at %s: %w", at, err)
	}
	s.source, s.streamed = source, time.Now()
	s.log.Info("replication: streaming", "at", at, "system", source.SystemID, "timeline", source.Timeline)
	return s.receive(ctx, w, undo, at)
}

// receive runs a receiver on an open stream.
func (s *Stream) receive(ctx context.Context, w *wire, undo func(), at LSN) error {
	r := &receiver{wire: w, config: s.config, handler: s.handler, ledger: s.ledger, state: &s.state,
		decoder: newDecoder(), received: at, confirmed: at, commit: s.state.begin(at)}
	s.state.enter(Streaming, "")
	s.handler.Started()
	err := r.run(ctx)
	s.handler.Stopped()
	if ctx.Err() == nil {
		return fmt.Errorf("receive: %w", err)
	}
	undo()
	if err := r.finish(ctx); err != nil {
		s.log.Warn("replication: the stream's end was not orderly; a few changes will come again", "error", err)
	}
	return context.Cause(ctx)
}
