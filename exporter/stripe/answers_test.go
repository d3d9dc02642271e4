package stripe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// instant is a Stripe without a network, that takes one identifier.
type instant struct{ identifier string }

func (s instant) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"object":"billing.meter_event","identifier":"` + s.identifier + `","livemode":false}`
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// answers makes a handler that answers one thing. IDENTIFIER in the body stands for the request's.
func answers(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm() //nolint:errcheck // our own request
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, strings.ReplaceAll(body, "IDENTIFIER", r.PostForm.Get("identifier"))) //nolint:errcheck // the client sees it
	}
}

// refusal is an error body of Stripe's v1.
func refusal(code, message string) string {
	if code == "" {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error"}}`, message)
	}
	return fmt.Sprintf(`{"error":{"code":%q,"message":%q,"type":"invalid_request_error"}}`, code, message)
}

// cuts makes a handler that writes text, after a complete request, and ends the connection.
func cuts(text string, reset bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // our own request
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		io.WriteString(conn, text) //nolint:errcheck // about to be closed
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			tcp.SetLinger(0) //nolint:errcheck // RST
		}
		conn.Close()
	}
}

const html = "<html><head><title>502 Bad Gateway</title></head></html>"

// want is an outcome with the least delay in After; jitter adds up to a quarter.
type want = exporter.Outcome

func retry(s exporter.Signal, c machine.Cost, code string, least time.Duration) want {
	return want{Kind: exporter.Retry, Signal: s, Cost: c, Code: code, After: least}
}

func final(k exporter.Kind, code string) want { return want{Kind: k, Code: code} }

const (
	healthy       = exporter.Healthy
	unreachable   = exporter.Unreachable
	rateLimited   = exporter.RateLimited
	noCredentials = exporter.Unauthorized
)

// Every answer that Stripe, something in front of it, or nobody gives, and what it means.
var answerTests = []struct {
	name  string
	serve http.HandlerFunc
	rule  string
	want  want
}{
	// Taken.
	{"200", answers(200, `{"object":"billing.meter_event","identifier":"IDENTIFIER"}`), "created", final(exporter.Accepted, "")},
	{"duplicate as v1 says it", answers(400, refusal("", "An event already exists with identifier IDENTIFIER."), "Stripe-Should-Retry", "false"),
		"taken earlier", final(exporter.Accepted, "duplicate")}, // lesson 25
	{"duplicate with v2's code", answers(400, refusal("duplicate_meter_event", "A meter event with a duplicate identifier has already been submitted.")),
		"taken earlier", final(exporter.Accepted, "duplicate")},
	{"duplicate of somebody else's", answers(400, refusal("", "An event already exists with identifier weir_00.")),
		"refused", final(exporter.Quarantined, "http_400")},
	{"duplicate's text with another status", answers(402, refusal("", "An event already exists with identifier IDENTIFIER.")),
		"refused", final(exporter.Quarantined, "http_402")},

	{"cancelled before, which makes no event", answers(400, refusal("", "The event with identifier IDENTIFIER has already been cancelled.")),
		"refused", final(exporter.Quarantined, "http_400")},

	// Success that can't be read.
	{"200 empty", answers(200, ""), "success that can't be read: the next attempt learns whether it is one", retry(unreachable, machine.Counted, "unreadable", 0)},
	{"200 html", answers(200, html), "success that can't be read: the next attempt learns whether it is one", retry(unreachable, machine.Counted, "unreadable", 0)},
	{"200 other object", answers(200, `{}`), "success that can't be read: the next attempt learns whether it is one", retry(unreachable, machine.Counted, "unreadable", 0)},
	{"200 other event", answers(200, `{"object":"billing.meter_event","identifier":"weir_00"}`),
		"success that can't be read: the next attempt learns whether it is one", retry(unreachable, machine.Counted, "unreadable", 0)},
	{"200 cut short", cuts("HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{\"object\":", false),
		"success that can't be read: the next attempt learns whether it is one", retry(unreachable, machine.Counted, "unreadable", 0)},
	{"307", answers(307, "", "Location", "https://elsewhere.invalid/"),
		"success that can't be read: the next attempt learns whether it is one", retry(unreachable, machine.Counted, "unreadable", 0)},

	// Not Stripe's word.
	{"400 html", answers(400, html), "not Stripe's word: a proxy, or a body cut short", retry(unreachable, machine.Counted, "http_400", 0)},
	{"403 html", answers(403, html), "not Stripe's word: a proxy, or a body cut short", retry(unreachable, machine.Counted, "http_403", 0)},
	{"502 html", answers(502, html), "not Stripe's word: a proxy, or a body cut short", retry(unreachable, machine.Counted, "http_502", 0)},
	{"400 cut short", cuts("HTTP/1.1 400 Bad Request\r\nContent-Length: 400\r\n\r\n{\"error\":{\"mess", false),
		"not Stripe's word: a proxy, or a body cut short", retry(unreachable, machine.Counted, "http_400", 0)},
	{"400 with an error that isn't an object", answers(400, `{"error":"invalid_grant"}`),
		"not Stripe's word: a proxy, or a body cut short", retry(unreachable, machine.Counted, "http_400", 0)},
	{"400 with an empty error", answers(400, `{"error":{}}`), "not Stripe's word: a proxy, or a body cut short", retry(unreachable, machine.Counted, "http_400", 0)},
	{"429 html", answers(429, html), "too many requests, not in Stripe's words", retry(rateLimited, machine.Waived, "http_429", 30*time.Second)},

	// Stripe's trouble.
	{"500", answers(500, refusal("", "An unknown error occurred")), "Stripe's trouble", retry(unreachable, machine.Counted, "http_500", 0)},
	{"500 Should-Retry false", answers(500, refusal("", "An unknown error occurred"), "Stripe-Should-Retry", "false"),
		"Stripe's trouble", retry(unreachable, machine.Counted, "http_500", 30*time.Second)},
	{"503 Retry-After", answers(503, refusal("", "down"), "Retry-After", "120"), "Stripe's trouble", retry(unreachable, machine.Counted, "http_503", 2*time.Minute)},
	{"503 Retry-After a year", answers(503, refusal("", "down"), "Retry-After", "31536000"), "Stripe's trouble", retry(unreachable, machine.Counted, "http_503", time.Hour)},
	{"503 Retry-After nonsense", answers(503, refusal("", "down"), "Retry-After", "-5"), "Stripe's trouble", retry(unreachable, machine.Counted, "http_503", 0)},

	{"400 api_error", answers(400, `{"error":{"message":"Something went wrong on our end","type":"api_error"}}`),
		"Stripe's trouble", retry(unreachable, machine.Counted, "http_400", 0)},

	// The lane's trouble.
	{"401", answers(401, refusal("", "Invalid API Key provided: sk_test_****weir")), "credentials refused", retry(noCredentials, machine.Unsent, "http_401", 0)},
	{"401 expired", answers(401, refusal("api_key_expired", "Expired API Key provided")), "credentials refused", retry(noCredentials, machine.Unsent, "api_key_expired", 0)},
	{"403", answers(403, refusal("", "The provided key does not have the required permissions")), "credentials refused", retry(noCredentials, machine.Unsent, "http_403", 0)},
	{"400 account", answers(400, refusal("testmode_charges_only", "activate your account")), "credentials refused", retry(noCredentials, machine.Unsent, "testmode_charges_only", 0)},
	{"404 no such endpoint", answers(404, refusal("", "Unrecognized request URL (POST: /v1/billing/meter_events).")),
		"no such endpoint: the URL leads elsewhere", retry(unreachable, machine.Unsent, "http_404", 0)},

	// Not now.
	{"429 global", answers(429, refusal("rate_limit", "Request rate limit exceeded."), "Stripe-Rate-Limited-Reason", "global-rate"),
		"too many requests", retry(rateLimited, machine.Unsent, "rate_limit", 30*time.Second)},
	{"429 endpoint, Retry-After", answers(429, refusal("rate_limit", "Request rate limit exceeded."), "Stripe-Rate-Limited-Reason", "endpoint-concurrency", "Retry-After", "7"),
		"too many requests", retry(rateLimited, machine.Unsent, "rate_limit", 7*time.Second)},
	{"429 bare", answers(429, refusal("", "slow down")), "too many requests", retry(rateLimited, machine.Unsent, "http_429", 30*time.Second)},
	{"429 lock timeout", answers(429, refusal("lock_timeout", "This object cannot be accessed right now"), "Stripe-Should-Retry", "true"),
		"this customer's meter is busy", retry(healthy, machine.Unsent, "lock_timeout", 0)},
	{"429 resource-specific", answers(429, refusal("rate_limit", "one at a time"), "Stripe-Rate-Limited-Reason", "resource-specific"),
		"this customer's meter is busy", retry(healthy, machine.Unsent, "rate_limit", 0)},
	{"409", answers(409, refusal("", "concurrent requests")), "a sibling is in flight", retry(healthy, machine.Waived, "http_409", 0)},
	{"409 key in use", answers(409, refusal("idempotency_key_in_use", "another request")), "a sibling is in flight", retry(healthy, machine.Waived, "idempotency_key_in_use", 0)},
	{"400 key mismatch", answers(400, `{"error":{"message":"Keys for idempotent requests…","type":"idempotency_error"}}`),
		"Idempotency-Key used for something else", retry(healthy, machine.Counted, "http_400", 0)},

	// Refused in words we know.
	{"35 days", answers(400, refusal("", "The event timestamp cannot be more than 35 days in past. Expected a timestamp greater than or equal to 1700000000.")),
		"too late", final(exporter.Rejected, "timestamp_too_far_in_past")},
	{"35 days by code", answers(400, refusal("timestamp_too_far_in_past", "…")), "too late", final(exporter.Rejected, "timestamp_too_far_in_past")},
	{"5 minutes", answers(400, refusal("", "The event timestamp cannot be more than 5 minutes in the future.")),
		"too early by Stripe's clock", retry(healthy, machine.Counted, "timestamp_in_future", time.Minute)},
	{"15 digits", answers(400, refusal("", "The value in the event payload can have at most 15 digits. Received 1234567890123456.")),
		"too many digits", final(exporter.Rejected, "invalid_value")},
	{"value", answers(400, refusal("meter_event_invalid_value", "…")), "not a value", final(exporter.Rejected, "invalid_value")},
	{"no meter", answers(400, refusal("", `No active meter found for event name "tokens"`)),
		"no active meter: create or reactivate it, and requeue", final(exporter.Quarantined, "meter_inactive")},
	{"no meter, resource_missing", answers(404, refusal("resource_missing", `No active meter found for event name "tokens"`)),
		"no active meter: create or reactivate it, and requeue", final(exporter.Quarantined, "meter_inactive")},
	{"archived meter", answers(400, refusal("archived_meter", "…")), "no active meter: create or reactivate it, and requeue", final(exporter.Quarantined, "meter_inactive")},
	{"customer", answers(400, refusal("resource_missing", "No such customer: 'cus_1'")), "no such customer: create it, and requeue", final(exporter.Quarantined, "customer_not_found")},
	{"customer key", answers(400, refusal("meter_event_no_customer_defined", "…")),
		"the meter reads another key for the customer: correct Config.Meters, and requeue", final(exporter.Quarantined, "no_customer")},
	{"value key", answers(400, refusal("meter_event_value_not_found", "…")),
		"the meter reads another key for the value: correct Config.Meters, and requeue", final(exporter.Quarantined, "no_value")},

	// Refused in others.
	{"unknown code", answers(400, refusal("missing_dimension_payload_keys", "…")), "refused", final(exporter.Quarantined, "missing_dimension_payload_keys")},
	{"odd code", answers(400, refusal("-Ödd Code!", "…")), "refused", final(exporter.Quarantined, "dd_code")},
	{"no code", answers(400, refusal("", "Something new.")), "refused", final(exporter.Quarantined, "http_400")},
	{"404 resource", answers(404, refusal("resource_missing", "No such thing")), "refused", final(exporter.Quarantined, "resource_missing")},
	{"Should-Retry true", answers(400, refusal("brand_new", "Try again."), "Stripe-Should-Retry", "true"),
		"refused, but Stripe advises a retry", retry(healthy, machine.Counted, "brand_new", 0)},

	// No answer.
	{"closed after the request", cuts("", false), "connection lost without an answer", retry(unreachable, machine.Counted, "connection_lost", 0)},
	{"reset after the request", cuts("", true), "connection lost without an answer", retry(unreachable, machine.Counted, "connection_lost", 0)},
	{"not HTTP", cuts("SSH-2.0-OpenSSH_9.2\r\n", false), "connection lost without an answer", retry(unreachable, machine.Counted, "connection_lost", 0)},
	{"hangs", func(_ http.ResponseWriter, r *http.Request) { hang(r) }, "no answer in time", retry(unreachable, machine.Counted, "timeout", 0)},
	{"hangs in the body", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.(http.Flusher).Flush()
		hang(r)
	}, "no answer in time", retry(unreachable, machine.Counted, "timeout", 0)},
}

// hang keeps a request until its client has gone. The server notices that once the body is read.
func hang(r *http.Request) {
	io.Copy(io.Discard, r.Body) //nolint:errcheck // our own request
	<-r.Context().Done()
}

// exchange is Deliver with a view of the rule that decided.
func exchange(ctx context.Context, t *testing.T, e *Exporter, item machine.Item) (exporter.Outcome, *rule) {
	t.Helper()
	ev, held := e.admit(ctx, &item)
	if held != nil {
		t.Fatalf("not sent: %+v", *held)
	}
	return e.classify(e.send(ctx, &item, ev))
}

// checkOutcome compares an outcome and the rule behind it with what a case wants.
func checkOutcome(t *testing.T, got exporter.Outcome, by *rule, rule string, want want) {
	t.Helper()
	if by.name != rule {
		t.Errorf("decided by rule %q, want %q", by.name, rule)
	}
	if got.After < want.After || got.After > want.After+want.After/4 {
		t.Errorf("after %v, want %v and up to a quarter", got.After, want.After)
	}
	if (got.Detail == "") != (got.Kind == exporter.Accepted) || len(got.Detail) > maxDetail {
		t.Errorf("detail %q: need one for everything that isn't accepted, of at most %d bytes", got.Detail, maxDetail)
	}
	got.After, want.After, got.Detail, got.Ref = 0, 0, "", ""
	if got != want {
		t.Errorf("outcome %+v, want %+v", got, want)
	}
}

// lesson 25: a duplicate is a success. lesson "hangs": a call has its time, and ends.
func TestAnswers(t *testing.T) {
	covered := map[string]bool{}
	for _, tt := range answerTests {
		covered[tt.rule] = true
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, tt.serve)
			e := newExporter(t, server.URL, func(c *Config) {
				if strings.HasPrefix(tt.name, "hangs") {
					c.Timeout = 500 * time.Millisecond
				}
			})
			o, by := exchange(t.Context(), t, e, newItem(tt.name))
			checkOutcome(t, o, by, tt.rule, tt.want)
		})
	}
	for _, name := range []string{rules[0].name, rules[1].name, rules[2].name} {
		covered[name] = true // TestNoAnswer
	}
	for _, tt := range cancelAnswerTests {
		covered[tt.rule] = true // TestCancelAnswers
	}
	for _, r := range rules {
		if !covered[r.name] {
			t.Errorf("no answer is covered by rule %q", r.name)
		}
	}
}

// Where nothing reaches Stripe, or the caller gives up.
func TestNoAnswer(t *testing.T) {
	const never = "never sent: no name, no route, no handshake, no time"
	unsent := retry(unreachable, machine.Unsent, "unreachable", 0)
	dials := func(dial func(context.Context, string, string) (net.Conn, error)) func(*Config) {
		return func(c *Config) { c.Transport = &http.Transport{DialContext: dial} }
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	plaintext := newServer(t, func(http.ResponseWriter, *http.Request) {})

	tests := []struct {
		name   string
		url    string
		config func(*Config)
	}{
		{"connection refused", closed.URL, nil},
		{"untrusted certificate", untrusted.URL, nil},
		{"no TLS", "https" + strings.TrimPrefix(plaintext.URL, "http"), nil},
		{"no such host", "http://stripe.invalid", dials(func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "stripe.invalid", IsNotFound: true}}
		})},
		{"no connection in time", "http://stripe.invalid", func(c *Config) {
			c.Timeout = 50 * time.Millisecond
			dials(func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })(c)
		}},
		{"proxy refused", "https://stripe.invalid", func(c *Config) {
			c.Transport = &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(closed.URL) }}
		}},
		{"proxy refuses CONNECT", "https://stripe.invalid", func(c *Config) {
			c.Transport = &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(plaintext.URL) }}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, by := exchange(t.Context(), t, newExporter(t, tt.url, tt.config), newItem(tt.name))
			checkOutcome(t, o, by, never, unsent)
		})
	}
	t.Run("cancelled before", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("shutdown"))
		o, by := exchange(ctx, t, newExporter(t, plaintext.URL, nil), newItem("x"))
		checkOutcome(t, o, by, "given up before sending", retry(exporter.Unasked, machine.Unsent, "cancelled", 0))
	})
	t.Run("cancelled after", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		server := newServer(t, func(_ http.ResponseWriter, r *http.Request) { cancel(errors.New("shutdown")); hang(r) })
		o, by := exchange(ctx, t, newExporter(t, server.URL, nil), newItem("x"))
		checkOutcome(t, o, by, "given up after sending", retry(exporter.Unasked, machine.Waived, "cancelled", 0))
	})
	t.Run("a transport that can't tell", func(t *testing.T) {
		e := newExporter(t, "http://stripe.invalid", func(c *Config) { c.Transport = broken{} })
		o, by := exchange(t.Context(), t, e, newItem("x"))
		checkOutcome(t, o, by, "connection lost without an answer", retry(unreachable, machine.Counted, "connection_lost", 0))
	})
}

type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("broken") }

// HTTP/2 announces its connections elsewhere in net/http.
func TestHTTP2(t *testing.T) {
	for _, lost := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("%s, want HTTP/2", r.Proto)
			}
			if lost {
				panic(http.ErrAbortHandler)
			}
			created(w, r, false)
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		e := newExporter(t, server.URL, func(c *Config) {
			transport := newTransport(2)
			transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			transport.TLSClientConfig.NextProtos = nil
			c.Transport = transport
		})
		o, by := exchange(t.Context(), t, e, newItem("x"))
		if lost {
			checkOutcome(t, o, by, "connection lost without an answer", retry(unreachable, machine.Counted, "connection_lost", 0))
		} else {
			checkOutcome(t, o, by, "created", final(exporter.Accepted, ""))
		}
	}
}

// Whatever Stripe or a library writes, a person reads one short line without keys.
func TestDetail(t *testing.T) {
	long := bytes.Repeat([]byte("é"), 5000)
	for in, want := range map[string]string{
		"Invalid API Key provided: sk_test_abcDEF_1 \n\t twice": "Invalid API Key provided: [redacted] twice",
		"got rk_live_x, Authorization: Bearer abc.def-123456":   "got [redacted], Authorization: [redacted]",
		"whsec_abc\x00\x1b[31mred\xff":                          "[redacted] [31mred",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) is %q, want %q", in, got, want)
		}
	}
	if got := clean(string(long)); len(got) > maxDetail || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes %q: want at most %d, whole characters", len(got), got, maxDetail)
	}
}
