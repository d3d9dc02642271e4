package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// wire is the bare connection of one stream, owned by one goroutine.
//
// A read that meets its deadline loses nothing: what has arrived of a message stays in the frontend's
// buffer, and the next read goes on from there.
type wire struct {
	conn         net.Conn
	frontend     *pgproto3.Frontend
	writeTimeout time.Duration // for each write
	until        time.Time     // the read deadline that is set
	out          [39]byte      // a status update as it goes out
}

func newWire(conn net.Conn, frontend *pgproto3.Frontend, config Config) *wire {
	return &wire{conn: conn, frontend: frontend, writeTimeout: config.WalSenderTimeout}
}

// interruptOn makes a read return as soon as ctx ends. The function that it answers undoes that, and
// waits where it is happening right now.
func (w *wire) interruptOn(ctx context.Context) (undo func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = w.conn.SetReadDeadline(time.Unix(1, 0))
		close(done)
	})
	return sync.OnceFunc(func() {
		if !stop() {
			<-done
		}
		w.until = time.Time{}
	})
}

// receive answers the next message, valid until the next receive; nil when there is none until the given
// time. It makes no system call while whole messages are in the buffer.
func (w *wire) receive(ctx context.Context, until time.Time) (pgproto3.BackendMessage, error) {
	if !until.Equal(w.until) {
		if err := w.conn.SetReadDeadline(until); err != nil {
			return nil, err
		}
		w.until = until
	}
	// After the deadline is set, which may just have undone the interruption.
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	message, err := w.frontend.Receive()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, nil
	}
	return message, err
}

// start sends START_REPLICATION and waits until the stream is open.
func (w *wire) start(ctx context.Context, slot, publication string, at LSN) error {
	sql := fmt.Sprintf(`START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names '%s', messages 'true')`,
		slot, at, publication)
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.writeTimeout)); err != nil {
		return err
	}
	w.frontend.SendQuery(&pgproto3.Query{String: sql})
	if err := w.frontend.Flush(); err != nil {
		return err
	}
	until := time.Now().Add(2 * w.writeTimeout)
	for {
		message, err := w.receive(ctx, until)
		if err != nil {
			return err
		}
		switch message := message.(type) {
		case nil:
			return errSilent
		case *pgproto3.CopyBothResponse:
			return nil
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(message)
		case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
		default:
			return fmt.Errorf("unexpected answer %T", message)
		}
	}
}

// sendStatus tells the server that it may forget everything before confirmed. One position stands for
// all three that the message has: what is confirmed has been received, made durable and applied.
func (w *wire) sendStatus(now time.Time, confirmed LSN, reply bool) error {
	b := w.out[:0]
	b = append(b, 'd')
	b = binary.BigEndian.AppendUint32(b, 4+34)
	b = append(b, 'r')
	for range 3 { // written, flushed, applied
		b = binary.BigEndian.AppendUint64(b, uint64(confirmed))
	}
	b = binary.BigEndian.AppendUint64(b, timestamp(now))
	if reply {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	if err := w.conn.SetWriteDeadline(now.Add(w.writeTimeout)); err != nil {
		return err
	}
	_, err := w.conn.Write(b)
	return err
}

// end closes the stream and the session in order. It returns once the server has taken in what was sent
// before and has hung up, so that slot and lock are free, or when ctx ends. What still arrives is dropped:
// it comes again.
func (w *wire) end(ctx context.Context) error {
	until, _ := ctx.Deadline()
	w.frontend.Send(&pgproto3.CopyDone{})
	if err := w.frontend.Flush(); err != nil {
		return err
	}
	for over := false; ; {
		message, err := w.receive(ctx, until)
		if over && err != nil {
			return nil
		}
		if err != nil {
			return err
		}
		switch message := message.(type) {
		case nil:
			return errSilent
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(message)
		case *pgproto3.ReadyForQuery:
			over = true
			w.frontend.Send(&pgproto3.Terminate{})
			if err := w.frontend.Flush(); err != nil {
				return err
			}
		}
	}
}

// close says goodbye, as far as it can be said and has not been, and closes.
func (w *wire) close() {
	_ = w.conn.SetWriteDeadline(time.Now().Add(time.Second))
	w.frontend.Send(&pgproto3.Terminate{})
	_ = w.frontend.Flush()
	_ = w.conn.Close()
}
