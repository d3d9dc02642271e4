package torture

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
)

// secretKey is the stand-in's; it opens nothing else.
const secretKey = "sk_test_weir"

// provider is the stand-in. It lives in the harness, so it survives everything that happens to weir, and it has
// an address for each relay, so that it knows who called.
type provider struct {
	*sandbox.Sandbox
	servers []*http.Server
	address []string // by relay

	mu    sync.Mutex
	calls map[string][]*call // by identifier, in order of arrival
}

// call is one request that carried an identifier.
type call struct {
	relay    int
	received time.Time
	ended    time.Time // zero while it is being answered
	ref      string    // Request-Id of the answer, "" where none was given
}

func newProvider(p *Plan) (*provider, error) {
	config := sandbox.Config{Keys: []sandbox.Key{{Secret: secretKey}}, Faults: p.Moods, Seed: p.Seed}
	for _, name := range meters {
		config.Meters = append(config.Meters, sandbox.Meter{EventName: name})
	}
	// The least that the policy has to get by with: what is repeated later is billed twice.
	config.UniquenessWindow = p.Horizon + 2*lease
	config.IdempotencyWindow = config.UniquenessWindow
	s := &provider{Sandbox: sandbox.New(config), calls: map[string][]*call{}}
	for i := range p.Relays {
		socket, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.close()
			return nil, err
		}
		server := &http.Server{Handler: s.record(i, s.Handler()), ReadHeaderTimeout: 10 * time.Second}
		s.servers = append(s.servers, server)
		s.address = append(s.address, socket.Addr().String())
		go server.Serve(socket) //nolint:errcheck // it ends with close
	}
	return s, nil
}

func (s *provider) close() {
	s.Sandbox.Close()
	for _, server := range s.servers {
		server.Close()
	}
}

// record notes who sent what, and when.
func (s *provider) record(relay int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received := time.Now()
		body, _ := io.ReadAll(r.Body) // the sandbox finds out what is wrong with it
		r.Body = io.NopCloser(bytes.NewReader(body))
		form, _ := url.ParseQuery(string(body))
		c := &call{relay: relay, received: received}
		if id := form.Get("identifier"); id != "" {
			s.mu.Lock()
			s.calls[id] = append(s.calls[id], c)
			s.mu.Unlock()
		}
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			c.ended, c.ref = time.Now(), w.Header().Get("Request-Id")
		}()
		next.ServeHTTP(w, r)
	})
}

// seen are the calls with an identifier so far.
func (s *provider) seen(identifier string) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []call
	for _, c := range s.calls[identifier] {
		calls = append(calls, *c)
	}
	return calls
}

// awaitCall waits for a call with the identifier that satisfies is.
func (s *provider) awaitCall(ctx context.Context, identifier string, is func(call) bool) (found call, err error) {
	err = poll(ctx, func() bool {
		for _, c := range s.seen(identifier) {
			if is(c) {
				found = c
				return true
			}
		}
		return false
	})
	return found, err
}

// poll asks often until the answer is yes.
func poll(ctx context.Context, yes func() bool) error { return pollEvery(ctx, 2*time.Millisecond, yes) }
