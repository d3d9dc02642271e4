package replication

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A read deadline in the middle of a message loses nothing: each byte comes after a pause that is longer
// than the status timer.
func TestMessagesInPieces(t *testing.T) {
	play(t, func(f *fake) {
		f.pass(deliveriesRelation(), beginMessage())
		for _, m := range []raw{insertMessage("7", "stripe", "pending", nil, dueText, nil), commitMessage(beginning + 0x100)} {
			m = xlogData(time.Now(), m)
			for _, b := range (raw{'d'}.int32(4 + len(m)).bytes(string(m))) {
				f.write([]byte{b})
				<-time.After(f.stream.config.statusEvery() + time.Millisecond)
				f.send() // let it be read
			}
			// The server answers the status updates of the meantime.
			f.send(keepaliveMessage(beginning, time.Now(), 0))
		}
		if got, want := f.log.copy(), []string{"started", "  insert stripe pending", "commit"}; !slices.Equal(got, want) {
			t.Errorf("transcript %q, want %q", got, want)
		}
		if n := len(f.heard()); n < 100 {
			t.Errorf("%d status updates in between, want one for each byte", n)
		}
	})
}

// lesson 17: status goes out by its own timer, a third of the server's patience at most.
func TestStatusTimer(t *testing.T) {
	play(t, func(f *fake) {
		for range 10 {
			<-time.After(6 * time.Second)
			f.send(keepaliveMessage(beginning, time.Now(), 0))
		}
		statuses := f.heard()
		if len(statuses) < 9 {
			t.Fatalf("%d status updates in a minute, want at least 9", len(statuses))
		}
		for i, s := range statuses[1:] {
			if gap := s.after - statuses[i].after; gap > f.stream.config.WalSenderTimeout/2 {
				t.Errorf("%v between two status updates", gap)
			}
			if !s.reply {
				t.Errorf("status update at %v asks for no reply", s.after)
			}
		}
	})
}

func TestReplyAtOnce(t *testing.T) {
	play(t, func(f *fake) {
		<-time.After(time.Second)
		before := len(f.heard())
		f.send(keepaliveMessage(beginning+0x40, time.Now(), 1))
		statuses := f.heard()
		if len(statuses) != before+1 {
			t.Fatalf("%d answers to a request, want 1 at once", len(statuses)-before)
		}
		if got := f.last().flushed; got != beginning+0x40 {
			t.Errorf("answered with %s, want %s", got, beginning+0x40)
		}
	})
}

// lessons 3, 5: one position in all three fields, what the ledger has kept, never falling, never zero.
func TestConfirmedPosition(t *testing.T) {
	play(t, func(f *fake) {
		f.ledger.manual = true
		ask := func() { <-time.After(time.Second); f.send(keepaliveMessage(beginning+0x50, time.Now(), 1)) }
		check := func(when string, want LSN) {
			t.Helper()
			if s := f.last(); s.written != want || s.flushed != want || s.confirmed != want {
				t.Errorf("%s: %+v, want %s in all three", when, s, want)
			}
		}
		ask()
		check("received, not kept", beginning)
		f.ledger.Flush(t.Context())
		ask()
		check("kept", beginning+0x50)
		f.ledger.durable = 0
		ask()
		check("a ledger that forgets", beginning+0x50)
		f.ledger.durable = beginning + 0x9999
		ask()
		check("a ledger that is ahead of the stream", beginning+0x50)
		if s := f.stream.Status(); s.Confirmed != beginning+0x50 || s.Received != beginning+0x50 {
			t.Errorf("status %+v", s)
		}
	})
}

// lesson 5: a keepalive within a transaction is no position, and one that lags behind takes nothing back.
func TestKeepalivePosition(t *testing.T) {
	play(t, func(f *fake) {
		f.pass(deliveriesRelation(), beginMessage())
		f.send(keepaliveMessage(beginning+0x500, time.Now(), 0))
		if s := f.stream.Status(); f.log.idle != 0 || s.Received != beginning || s.ServerEnd != beginning+0x500 {
			t.Errorf("within a transaction: idle at %s, %+v", f.log.idle, s)
		}
		if s := f.stream.Status(); s.LagBytes != 0x500 {
			t.Errorf("lag %d bytes, want %d", s.LagBytes, 0x500)
		}
		f.pass(commitMessage(beginning + 0x400))
		f.send(keepaliveMessage(beginning+0x300, time.Now(), 0))
		if f.log.idle != beginning+0x400 || f.stream.Status().Received != beginning+0x400 {
			t.Errorf("after it: idle at %s, received %s, want both at the commit's end", f.log.idle, f.stream.Status().Received)
		}
	})
}

func TestLag(t *testing.T) {
	play(t, func(f *fake) {
		f.send(xlogData(commitTime.Add(90*time.Second), beginMessage()))
		if s := f.stream.Status(); s.LagSeconds != 90 || !s.LastCommit.Equal(commitTime) {
			t.Errorf("receiving: lag %v s, last commit %v", s.LagSeconds, s.LastCommit)
		}
		f.send(xlogData(commitTime.Add(90*time.Second), commitMessage(beginning+0x100)))
		f.send(keepaliveMessage(beginning+0x100, time.Now(), 0))
		if s := f.stream.Status(); s.LagSeconds != 0 || s.LagBytes != 0 {
			t.Errorf("idle: lag %v s, %d bytes", s.LagSeconds, s.LagBytes)
		}
		f.stream.state.enter(Connecting, "lost")
		<-time.After(30 * time.Second)
		if s := f.stream.Status(); s.LagSeconds != 30 {
			t.Errorf("away: lag %v s, want 30", s.LagSeconds)
		}
	})
}

// A peer that is silently dead is left: it owes replies.
// lesson "hangs"
func TestSilentServer(t *testing.T) {
	play(t, func(f *fake) {
		began := time.Now()
		err := f.result()
		limit := f.stream.config.silence()
		if took := time.Since(began); !errors.Is(err, errSilent) || took < limit || took > limit+f.stream.config.statusEvery() {
			t.Errorf("ended after %v with %v, want errSilent after %v", took, err, limit)
		}
	})
}

// A server that shuts down asks again and again for what can't be confirmed any more. It is answered, not
// without pause, and left in the end.
func TestServerThatWantsToStop(t *testing.T) {
	play(t, func(f *fake) {
		f.ledger.manual = true
		began := time.Now()
		f.send(keepaliveMessage(beginning+0x100, time.Now(), 0))
		asked := 0
		for len(f.done) == 0 && time.Since(began) < time.Minute {
			f.send(keepaliveMessage(beginning+0x100, time.Now(), 1))
			asked++
			<-time.After(10 * time.Millisecond)
		}
		if err := f.result(); !errors.Is(err, errStopping) {
			t.Errorf("ended with %v, want errStopping", err)
		}
		if took := time.Since(began); took < nagLimit || took > nagLimit+time.Second {
			t.Errorf("left after %v, want about %v", took, nagLimit)
		}
		if n := len(f.heard()); n > asked/5 {
			t.Errorf("%d answers to %d requests, want one every %v", n, asked, nagPause)
		}
	})
}

// Requests that are far apart are questions, not a wish to stop.
func TestServerThatAsksNowAndThen(t *testing.T) {
	play(t, func(f *fake) {
		for range 100 {
			<-time.After(time.Second)
			f.send(keepaliveMessage(beginning, time.Now(), 1))
		}
		if len(f.done) != 0 {
			t.Errorf("ended with %v", f.result())
		}
	})
}

// What can't be decoded ends the stream before anything behind it is handed over or confirmed.
func TestDecodeErrorEndsTheStream(t *testing.T) {
	play(t, func(f *fake) {
		f.pass(deliveriesRelation(), beginMessage(), insertMessage("7", "stripe", "pending", nil, dueText, nil))
		f.pass(insertMessage("8", "stripe", "paused", nil, dueText, nil))
		err := f.result()
		var broken *DecodeError
		var p *PermanentError
		if !errors.As(err, &broken) || !errors.As(classify(err), &p) {
			t.Errorf("ended with %v, want a *DecodeError that is permanent", err)
		}
		if got, want := f.log.copy(), []string{"started", "  insert stripe pending", "stopped"}; !slices.Equal(got, want) {
			t.Errorf("transcript %q, want %q", got, want)
		}
		if at := f.last().flushed; at != beginning {
			t.Errorf("confirmed %s, want still %s", at, beginning)
		}
	})
}

func TestOtherEnds(t *testing.T) {
	encode := func(m pgproto3.BackendMessage) []byte { b, _ := m.Encode(nil); return b }
	tests := []struct {
		name  string
		bytes []byte
		want  func(error) bool
	}{
		{"terminated", encode(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P01"}), func(err error) bool { return sqlState(err) == "57P01" }},
		{"ended", encode(&pgproto3.CopyDone{}), func(err error) bool { return errors.Is(err, errEnded) }},
		{"unknown CopyData", raw{'d'}.int32(5).byte('z'), func(err error) bool { var d *DecodeError; return errors.As(err, &d) }},
		{"empty CopyData", raw{'d'}.int32(4), func(err error) bool { var d *DecodeError; return errors.As(err, &d) }},
		{"short keepalive", raw{'d'}.int32(6).byte('k').byte(0), func(err error) bool { var d *DecodeError; return errors.As(err, &d) }},
		{"row in a stream", encode(&pgproto3.DataRow{}), func(err error) bool { var d *DecodeError; return errors.As(err, &d) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			play(t, func(f *fake) {
				f.write(encode(&pgproto3.NoticeResponse{Message: "tolerated"}))
				f.write(encode(&pgproto3.ParameterStatus{Name: "tolerated"}))
				f.write(test.bytes)
				if err := f.result(); !test.want(err) {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// lesson 6: the ledger is flushed, the server is told, and only then comes the end.
func TestEndInOrder(t *testing.T) {
	play(t, func(f *fake) {
		f.ledger.manual = true
		f.pass(deliveriesRelation(), beginMessage(), commitMessage(beginning+0x100))
		f.cancel()
		if err := f.result(); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if s := f.last(); f.ledger.flushes != 1 || s.flushed != beginning+0x100 {
			t.Errorf("flushes %d, last status %+v, want one, the commit's end", f.ledger.flushes, s)
		}
		if got, want := f.others(), []string{"CopyDone", "Terminate"}; !slices.Equal(got, want) {
			t.Errorf("then %q, want %q", got, want)
		}
		if got, want := f.log.copy(), []string{"started", "stopped"}; !slices.Equal(got, want) {
			t.Errorf("transcript %q, want %q", got, want)
		}
	})
}

func TestEndIsBounded(t *testing.T) {
	play(t, func(f *fake) {
		f.mute = true
		began := time.Now()
		f.cancel()
		if err := f.result(); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(began); took > f.stream.config.FlushTimeout {
			t.Errorf("a server that doesn't answer held the end up for %v", took)
		}
	})
}

// Undoing twice, without the context having ended, waits for nothing.
func TestInterruptIsUndoneTwice(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	w := newWire(client, pgproto3.NewFrontend(client, client), Config{})
	undo := w.interruptOn(t.Context())
	undo()
	undo()
}
