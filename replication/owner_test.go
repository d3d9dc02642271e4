package replication

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// owned is a connection that notices when two use it at once.
type owned struct {
	net.Conn
	users  atomic.Int32
	writes atomic.Int32
	shared atomic.Int32 // how often a second one came
}

func (o *owned) Read(b []byte) (int, error) {
	defer o.use()()
	return o.Conn.Read(b)
}

func (o *owned) Write(b []byte) (int, error) {
	defer o.use()()
	o.writes.Add(1)
	return o.Conn.Write(b)
}

func (o *owned) use() (done func()) {
	if o.users.Add(1) > 1 {
		o.shared.Add(1)
	}
	return func() { o.users.Add(-1) }
}

// lesson 9: one goroutine reads and writes the connection, whatever calls for a status update: the timer, a
// request of the server, a flush of the ledger, the end. A writer beside it would come while a read waits.
func TestOneGoroutineOwnsTheConnection(t *testing.T) {
	var conn *owned
	playOver(t, func(*testing.T) (client, server net.Conn) {
		client, server = net.Pipe()
		conn = &owned{Conn: client}
		return conn, server
	}, func(f *fake) {
		var others sync.WaitGroup
		over := make(chan struct{})
		for range 4 { // those who ask how the stream stands touch nothing
			others.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Second):
						_ = f.stream.Status()
					}
				}
			})
		}
		for i := range LSN(50) {
			f.pass(deliveriesRelation(), beginMessage(), insertMessage("7", "stripe", "pending", nil, dueText, nil))
			f.send(keepaliveMessage(beginning+i*0x100, time.Now(), 1))
			f.pass(commitMessage(beginning + i*0x100 + 0x80))
			<-time.After(7 * time.Second) // the timer is due meanwhile
		}
		f.cancel()
		if err := f.result(); err == nil {
			t.Error("want the context's error")
		}
		close(over)
		others.Wait()
		synctest.Wait()
		if n := conn.shared.Load(); n != 0 {
			t.Errorf("%d times two used the connection at once", n)
		}
		if n := conn.writes.Load(); n < 100 {
			t.Errorf("%d writes only: nothing is shown", n)
		}
	})
}
