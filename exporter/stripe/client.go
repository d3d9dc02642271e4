package stripe

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	sdk "github.com/stripe/stripe-go/v82"
)

// newHTTP makes the HTTP client of all calls.
func newHTTP(c Config) *http.Client {
	return &http.Client{
		Transport: newObserver(c),
		// A redirect would repeat the POST elsewhere. Left alone, it is an answer that can't be read.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// No Timeout: contexts bound the calls.
	}
}

// newClient makes an SDK client that shares nothing with any other: the SDK's defaults are global.
//
// Its own retries are off: it repeats other answers than its documentation says, and sleeps through a
// cancelled context. Telemetry is off. Its logger is off, since it prints every refusal, duplicates too, to
// stderr. NewBackendsWithConfig sets all backends; a missing one would be a nil pointer on first use.
func newClient(c Config, transport *http.Client) *sdk.Client {
	backend := &sdk.BackendConfig{
		HTTPClient:        transport,
		LeveledLogger:     &sdk.LeveledLogger{Level: sdk.LevelNull},
		MaxNetworkRetries: sdk.Int64(0),
		EnableTelemetry:   sdk.Bool(false),
	}
	if c.URL != "" {
		backend.URL = sdk.String(c.URL)
	}
	return sdk.NewClient(string(c.Key), sdk.WithBackends(sdk.NewBackendsWithConfig(backend)))
}

// newTransport clones http.DefaultTransport and lets it keep a connection for each call: with its default of
// two a busy relay would open, and close, a connection for nearly every event.
func newTransport(calls int) *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		t = standard.Clone()
	}
	// Over HTTP/2 all calls share a connection. If that dies silently, as behind a load balancer that is
	// replaced, all would time out for minutes, until TCP gives up; a ping finds out.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 10 * time.Second}
	t.MaxIdleConnsPerHost = calls
	t.MaxIdleConns = max(t.MaxIdleConns, calls)
	return t
}

// call is what the HTTP layer saw of one request. The SDK hides it where it can't read the body.
type call struct {
	sent   atomic.Bool // a connection was handed to the request; set while it runs
	status int         // 0 where no answer came
	header http.Header
}

type callKey struct{}

// observe answers a context whose request is seen by the call.
func observe(ctx context.Context) (context.Context, *call) {
	c := &call{}
	ctx = context.WithValue(ctx, callKey{}, c)
	// net/http announces a connection before it writes the first byte to it, and not before DNS, dialling, a
	// proxy's CONNECT and the TLS handshake are done. So without the announcement nothing was sent.
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { c.sent.Store(true) },
	}), c
}

// observer tells the call in a request's context what came of it, and bounds what is read.
type observer struct {
	next   http.RoundTripper
	traced bool // next announces its connections
}

func newObserver(c Config) *observer {
	if c.Transport == nil {
		return &observer{newTransport(c.Calls), true}
	}
	_, traced := c.Transport.(*http.Transport)
	return &observer{c.Transport, traced}
}

// maxAnswer is far more than the largest answer, a page of 100 meters.
const maxAnswer = 4 << 20

func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	c, _ := r.Context().Value(callKey{}).(*call)
	if c != nil && !o.traced {
		c.sent.Store(true)
	}
	response, err := o.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if c != nil {
		c.status, c.header = response.StatusCode, response.Header
	}
	response.Body = &bounded{io.LimitReader(response.Body, maxAnswer), response.Body}
	return response, nil
}

type bounded struct {
	io.Reader
	io.Closer
}
