package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// receiver reads one stream and hands it over. It belongs to one goroutine, which alone reads, decodes,
// calls the handler and answers the server.
//
// Invariant: 0 < confirmed <= received. Neither ever falls.
type receiver struct {
	wire    *wire
	config  Config
	handler Handler
	ledger  Ledger
	state   *state
	decoder *decoder

	received  LSN       // everything that ended before it has been handed over
	confirmed LSN       // what the server was told last, and durable in the ledger
	commit    time.Time // of the latest transaction, by the server's clock

	due     time.Time // when the next status update goes out
	told    time.Time // when the latest one went out
	heard   time.Time // when the latest message had been dealt with, or a part of one came
	partial int       // bytes of a message that is not whole yet
	asked   nag
}

// run receives until the connection or ctx ends. It never returns nil.
//
// The clock is looked at after every message, not only when there is none, so the server hears from weir
// also while transactions come faster than they are handled.
func (r *receiver) run(ctx context.Context) error {
	now := time.Now()
	r.heard, r.due = now, now
	for {
		if !now.Before(r.due) {
			if err := r.tell(now, true); err != nil {
				return err
			}
		}
		message, err := r.wire.receive(ctx, r.due)
		if err != nil {
			return err
		}
		if message == nil {
			now = time.Now()
			if n := r.wire.frontend.ReadBufferLen(); n != r.partial {
				r.partial, r.heard = n, now // a long message over a slow line is no silence
			}
			if silent := now.Sub(r.heard); silent > r.config.silence() {
				return fmt.Errorf("%w for %v", errSilent, silent.Round(time.Millisecond))
			}
			continue
		}
		if err := r.message(message); err != nil {
			return err
		}
		now = time.Now()
		r.heard = now
	}
}

// tell sends a status update. It asks for a reply, which says how far the server has read while there was
// nothing for weir: so the position of an idle outbox goes on in a busy database.
func (r *receiver) tell(now time.Time, reply bool) error {
	r.confirmed = max(r.confirmed, min(r.ledger.Confirmed(), r.received))
	r.told, r.due = now, now.Add(r.config.statusEvery())
	if err := r.wire.sendStatus(now, r.confirmed, reply); err != nil {
		return fmt.Errorf("send status: %w", err)
	}
	r.state.change(func(st *Status) { st.Confirmed = r.confirmed })
	return nil
}

func (r *receiver) message(message pgproto3.BackendMessage) error {
	switch message := message.(type) {
	case *pgproto3.CopyData:
		return r.copyData(message.Data)
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(message)
	case *pgproto3.CopyDone, *pgproto3.CommandComplete:
		return errEnded
	case *pgproto3.NoticeResponse:
		if message.Code == notInState {
			return fmt.Errorf("%w: %s", errUnpublished, message.Message)
		}
		return nil
	case *pgproto3.ParameterStatus:
		return nil
	}
	return &DecodeError{Message: "stream", Field: "message", Need: "CopyData", Got: fmt.Sprintf("%T", message)}
}

func (r *receiver) copyData(b []byte) error {
	c := &cursor{message: "CopyData", b: b}
	switch kind := c.uint8("type"); {
	case c.err != nil:
	case kind == 'w':
		return r.walData(c)
	case kind == 'k':
		return r.keepalive(c)
	default:
		c.fail("type", "w or k", fmt.Sprintf("%q", kind))
	}
	return c.err
}

func (r *receiver) walData(c *cursor) error {
	c.message = "XLogData"
	c.lsn("start")
	serverEnd := c.lsn("server end")
	sent := c.time("send time")
	if c.err != nil {
		return c.err
	}
	e, err := r.decoder.decode(c.b[c.at:])
	if err != nil {
		return err
	}
	switch e.kind {
	case noEvent:
		return nil
	case changeEvent:
		for i := range e.changes {
			r.handler.Change(&e.changes[i])
		}
		return nil
	case beginEvent:
		r.asked = nag{}
		r.commit = e.commit
		r.handler.Begin(e.commit)
	case commitEvent:
		r.received = max(r.received, e.end)
		r.handler.Commit(e.end)
	}
	r.state.progress(r.received, max(serverEnd, r.received), r.commit, max(0, sent.Sub(r.commit)))
	return nil
}

// keepalive says how far the server has read. Within a transaction that is no position to go on from;
// outside of one, everything that ended before has been handed over.
func (r *receiver) keepalive(c *cursor) error {
	c.message = "Keepalive"
	end := c.lsn("server end")
	sent := c.time("send time")
	reply := c.uint8("reply requested") != 0
	c.end()
	if c.err != nil {
		return c.err
	}
	lag := max(0, sent.Sub(r.commit))
	if !r.decoder.open {
		r.received, lag = max(r.received, end), 0
		r.handler.Idle(r.received)
	}
	r.state.progress(r.received, max(end, r.received), r.commit, lag)
	if !reply {
		return nil
	}
	now := time.Now()
	if r.asked.again(now, r.received) {
		return errStopping
	}
	// At once, unless the server has been answered just now.
	if next := r.told.Add(nagPause); next.Before(r.due) {
		r.due = next
	}
	return nil
}

// finish is the end in order: the ledger's last word, then the server is told of it, then goodbye. So
// nothing comes twice after a clean restart.
//
// THE ORDER: flush, status, CopyDone.
func (r *receiver) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.FlushTimeout)
	defer cancel()
	r.wire.writeTimeout = r.config.FlushTimeout
	var flushed error
	if ledger, ok := r.ledger.(Flusher); ok {
		if flushed = ledger.Flush(ctx); flushed != nil {
			flushed = fmt.Errorf("flush the ledger: %w", flushed)
		}
	}
	told := r.tell(time.Now(), false)
	if told == nil {
		told = r.wire.end(ctx)
	}
	return errors.Join(flushed, told)
}
