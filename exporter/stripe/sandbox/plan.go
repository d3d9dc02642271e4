package sandbox

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// plan is what the faults have in store for one request. The zero plan leaves it alone.
type plan struct {
	delays [2]time.Duration // before, after
	action *Action          // the first that isn't a delay
}

func (p plan) is(k Kind, w When) bool {
	return p.action != nil && p.action.Kind == k && p.action.When == w
}

func (p plan) fails(w When) bool { return p.is(FaultFail, w) }

// delay waits, and stops waiting when the client or the sandbox is gone.
func (p plan) delay(c *call, w When) {
	d := p.delays[w.index()]
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.request.Context().Done():
	case <-c.sandbox.closed:
	}
}

func (w When) index() int {
	if w == After {
		return 1
	}
	return 0
}

// before waits and ends the connection where the fault says so; false means that there is nobody left to answer.
func (p plan) before(c *call, w http.ResponseWriter) bool {
	if p.action == nil || p.action.When != Before || p.action.Kind == FaultFail {
		return true // work goes on, and does the waiting where it holds its lane
	}
	p.delay(c, Before)
	switch p.action.Kind {
	case FaultRefuse:
		cut(w, false)
	case FaultTruncate, FaultEmpty:
		p.mangle(c, w, answer{status: http.StatusOK, body: []byte(`{"object":"billing.meter_event"}`)})
	default:
		return p.silence(c, w)
	}
	return false
}

// replacement is the answer given instead of doing the work.
func (p plan) replacement(c *call) (answer, bool) {
	if p.action == nil || p.action.When != Before {
		return answer{}, false
	}
	switch p.action.Kind {
	case FaultStatus:
		return p.action.status(), true
	case FaultRateLimit:
		return errRateLimit(p.action.Reason, p.action.RetryAfter).answer(), true
	case FaultLockTimeout:
		return errLockTimeout().answer(), true
	case FaultConflict:
		return errConflict(c.endpoint.version).answer(), true
	}
	return answer{}, false
}

// after delivers the answer, or what the fault leaves of it.
func (p plan) after(c *call, w http.ResponseWriter, a answer) {
	if p.action == nil || p.action.When != After {
		c.write(w, a)
		return
	}
	switch p.action.Kind {
	case FaultStatus:
		c.write(w, p.action.status())
	case FaultTruncate, FaultEmpty:
		p.mangle(c, w, a)
	default:
		if p.silence(c, w) {
			c.write(w, a)
		}
	}
}

// silence resets or hangs; true means that the fault is neither.
func (p plan) silence(c *call, w http.ResponseWriter) bool {
	switch p.action.Kind {
	case FaultReset:
		cut(w, true)
	case FaultHang:
		select {
		case <-c.request.Context().Done():
		case <-c.sandbox.closed:
		}
		cut(w, false)
	default:
		return true
	}
	return false
}

// mangle sends a success without its body, or half of it. Refusals pass unharmed.
func (p plan) mangle(c *call, w http.ResponseWriter, a answer) {
	if a.status >= 300 {
		c.write(w, a)
		return
	}
	if p.action.Kind == FaultEmpty {
		c.write(w, answer{status: a.status})
		return
	}
	body := c.render(a)
	conn := hijack(w)
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nRequest-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
		requestID(c.number), len(body), body[:len(body)/2])
}

func (a *Action) status() answer {
	if a.HTML {
		body := fmt.Sprintf("<html><head><title>%d %s</title></head><body><h1>%[1]d %[2]s</h1></body></html>\n", a.Status, http.StatusText(a.Status))
		return answer{status: a.Status, body: []byte(body), html: true, retryAfter: a.RetryAfter}
	}
	e := apiError{status: a.Status, kind: typeAPI, message: "An injected fault: " + http.StatusText(a.Status) + ".", retryAfter: a.RetryAfter}
	if a.Status < 500 {
		e.kind = typeInvalidRequest
	}
	return e.answer()
}

// cut ends the connection without an answer: by RST if reset, else by FIN.
func cut(w http.ResponseWriter, reset bool) {
	conn := hijack(w)
	if reset {
		under := conn
		if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS would say goodbye first
			under = t.NetConn()
		}
		if tcp, ok := under.(*net.TCPConn); ok {
			tcp.SetLinger(0) //nolint:errcheck // closing follows either way
		}
		conn = under
	}
	conn.Close()
}

// hijack takes the connection over. Where that is impossible (HTTP/2, a recorder) the request is aborted instead.
func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return conn
}
