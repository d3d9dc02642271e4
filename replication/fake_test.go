package replication

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/weir-relay/weir/machine"
)

// beginning is where the streams of scripted servers start.
const beginning LSN = 0x1_0000_0000

// fake is the server's end of a stream: a test writes what a server would send and looks at what it hears.
// Time is the bubble's, so a test that waits for minutes takes none.
type fake struct {
	t      *testing.T
	conn   net.Conn
	ledger *memory
	log    *transcript
	stream *Stream
	cancel context.CancelFunc
	done   chan error

	mu       sync.Mutex
	statuses []statusUpdate
	rest     []string // other messages of the client, by name
	mute     bool     // doesn't answer CopyDone
}

type statusUpdate struct {
	after                       time.Duration // since the stream began
	written, flushed, confirmed LSN
	reply                       bool
}

// play runs a stream against a script.
func play(t *testing.T, script func(*fake)) {
	t.Helper()
	playOver(t, func(*testing.T) (client, server net.Conn) { return net.Pipe() }, script)
}

func playOver(t *testing.T, connect func(*testing.T) (client, server net.Conn), script func(*fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t)
		ledger := &memory{durable: beginning, seen: beginning, counts: machine.Counts{}}
		f := &fake{t: t, conn: server, ledger: ledger, log: &transcript{ledger: ledger}, done: make(chan error, 1)}
		f.stream = New(Config{Logger: slog.New(slog.DiscardHandler)}, f.log, ledger)
		var ctx context.Context
		ctx, f.cancel = context.WithCancel(t.Context())
		go f.listen(time.Now())
		go func() {
			w := newWire(client, pgproto3.NewFrontend(client, client), f.stream.config)
			defer w.close()
			undo := w.interruptOn(ctx)
			defer undo()
			f.done <- f.stream.receive(ctx, w, undo, beginning)
		}()
		script(f)
		f.cancel()
		synctest.Wait()
		server.Close()
	})
}

// listen writes down what the client says.
func (f *fake) listen(began time.Time) {
	backend := pgproto3.NewBackend(f.conn, f.conn)
	for {
		message, err := backend.Receive()
		if err != nil {
			return
		}
		f.mu.Lock()
		switch message := message.(type) {
		case *pgproto3.CopyData:
			b := message.Data
			at := func(i int) LSN { return LSN(binary.BigEndian.Uint64(b[i:])) }
			f.statuses = append(f.statuses, statusUpdate{time.Since(began), at(1), at(9), at(17), b[33] == 1})
		case *pgproto3.CopyDone:
			f.rest = append(f.rest, "CopyDone")
			if !f.mute {
				backend.Send(&pgproto3.CopyDone{})
				backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("COPY 0")})
				backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				_ = backend.Flush()
			}
		case *pgproto3.Terminate:
			f.rest = append(f.rest, "Terminate")
			f.conn.Close()
		}
		f.mu.Unlock()
	}
}

// send writes CopyData messages and returns when the client has dealt with them.
func (f *fake) send(messages ...raw) {
	f.t.Helper()
	for _, m := range messages {
		f.write(raw{'d'}.int32(4 + len(m)).bytes(string(m)))
	}
	synctest.Wait()
}

// pass sends changes and such as WAL data.
func (f *fake) pass(messages ...raw) {
	f.t.Helper()
	for _, m := range messages {
		f.send(xlogData(time.Now(), m))
	}
}

func (f *fake) write(b []byte) {
	f.t.Helper()
	if _, err := f.conn.Write(b); err != nil {
		f.t.Errorf("the client has gone: %v", err)
	}
}

func (f *fake) heard() []statusUpdate {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.statuses)
}

func (f *fake) last() statusUpdate {
	all := f.heard()
	if len(all) == 0 {
		f.t.Fatal("no status update")
	}
	return all[len(all)-1]
}

func (f *fake) others() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.rest)
}

// result is what the stream ended with.
func (f *fake) result() error {
	f.t.Helper()
	select {
	case err := <-f.done:
		return err
	case <-time.After(time.Hour):
		f.t.Fatal("the stream has not ended")
		return nil
	}
}
