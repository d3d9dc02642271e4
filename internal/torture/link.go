package torture

import (
	"context"
	"net"
	"sync"
	"time"
)

// direction is one of the two in which bytes go over a link.
type direction int

const (
	toServer direction = iota
	toRelay
)

// link stands between one relay and Postgres, and hurts what goes over it.
//
//	relay ── pump toServer ──▶ Postgres
//	      ◀── pump toRelay ───
//
// What it does to a direction holds for the connections that are there and for those to come.
type link struct {
	listener net.Listener

	mu     sync.Mutex
	server string            // where it leads
	refuse bool              // connections end at once
	conns  map[net.Conn]bool // both ends of each connection
	harm   [2]harm
	change chan struct{} // closed when harm changes
}

// harm is what is done to one direction. The zero value passes everything on.
type harm struct {
	hold    bool          // keep everything back
	swallow bool          // lose everything
	delay   time.Duration // pass each read on after this
	limit   int           // end the connection after so many bytes; 0: never
}

func newLink(server string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{server: server, listener: listener, conns: map[net.Conn]bool{}, change: make(chan struct{})}
	go l.accept()
	return l, nil
}

// address is where the relay connects to.
func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		relay, err := l.listener.Accept()
		if err != nil {
			return // it was closed
		}
		go l.join(relay)
	}
}

// join makes the other half of a connection and pumps until one end is gone.
func (l *link) join(relay net.Conn) {
	defer relay.Close()
	l.mu.Lock()
	refuse, address := l.refuse, l.server
	l.mu.Unlock()
	if refuse {
		return
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	if !l.keep(relay, server) {
		return
	}
	defer l.forget(relay, server)
	gone := make(chan struct{})
	var end sync.Once
	pump := func(from, to net.Conn, d direction) {
		l.pump(from, to, d, gone)
		end.Do(func() { close(gone) })
	}
	go pump(relay, server, toServer)
	go pump(server, relay, toRelay)
	<-gone
}

func (l *link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = true
	}
	return !l.refuse
}

func (l *link) forget(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.conns, c)
	}
}

// pump passes on what is read, as far as the harm of its direction lets it.
func (l *link) pump(from, to net.Conn, d direction, gone <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	passed := 0
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		h, change := l.now(d)
		for h.hold {
			select {
			case <-gone:
				return
			case <-change:
			}
			h, change = l.now(d)
		}
		if h.swallow {
			continue
		}
		if h.delay > 0 {
			select {
			case <-gone:
				return
			case <-time.After(h.delay):
			}
		}
		if h.limit > 0 && passed+n > h.limit {
			_, _ = to.Write(buffer[:max(0, h.limit-passed)])
			return
		}
		passed += n
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *link) now(d direction) (harm, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.harm[d], l.change
}

// put sets the harm of directions. The function it answers ends it.
func (l *link) put(h harm, directions ...direction) (off func()) {
	set := func(h harm) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, d := range directions {
			l.harm[d] = h
		}
		close(l.change)
		l.change = make(chan struct{})
	}
	set(h)
	return func() { set(harm{}) }
}

// during puts harm on directions for some time.
func (l *link) during(ctx context.Context, d time.Duration, h harm, directions ...direction) error {
	defer l.put(h, directions...)()
	return sleep(ctx, d)
}

// cut ends all connections, and new ones at once, until mend.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = true
	for c := range l.conns {
		c.Close()
	}
}

// mend takes connections again.
func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = false
}

// lead makes the link lead to another server, as a name does that has been moved.
func (l *link) lead(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = server
	for c := range l.conns {
		c.Close()
	}
}

// close ends the link.
func (l *link) close() {
	l.listener.Close()
	l.cut()
}
