package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	stripe "github.com/stripe/stripe-go/v82"
)

// tokens is the meter that most tests use.
var tokens = Meter{EventName: "tokens"}

// start serves a sandbox until the test ends.
func start(t testing.TB, cfg Config) (*Sandbox, *httptest.Server) {
	t.Helper()
	if cfg.Meters == nil {
		cfg.Meters = []Meter{tokens}
	}
	s := New(cfg)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() { s.Close(); server.Close() })
	return s, server
}

// client is the real SDK, pointed at the sandbox, without retries.
func client(url, key string) *stripe.Client {
	return stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(url), MaxNetworkRetries: stripe.Int64(0), EnableTelemetry: stripe.Bool(false),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

func usage(identifier, customer, value string) *stripe.BillingMeterEventCreateParams {
	return &stripe.BillingMeterEventCreateParams{
		EventName:  stripe.String("tokens"),
		Identifier: stripe.String(identifier),
		Payload:    map[string]string{"stripe_customer_id": customer, "value": value},
	}
}

// refusal asserts that err is Stripe's error and returns it.
func refusal(t *testing.T, err error) *stripe.Error {
	t.Helper()
	var e *stripe.Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want a *stripe.Error", err)
	}
	return e
}

func post(t *testing.T, url, body string, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer sk_test_weir")
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// wantRefusal asserts status and the parameter that the error body blames.
func wantRefusal(t *testing.T, resp *http.Response, status int, param string) {
	t.Helper()
	var body struct {
		Error struct{ Param, Message string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status || body.Error.Param != param || body.Error.Message == "" {
		t.Errorf("got %d %+v, want %d for %q", resp.StatusCode, body.Error, status, param)
	}
}

func TestEventIsAcceptedOnceAndLedgered(t *testing.T) { // lesson 25
	s, server := start(t, Config{})
	sc := client(server.URL, "sk_test_weir")
	ctx := context.Background()

	got, err := sc.V1BillingMeterEvents.Create(ctx, usage("id1", "cus_1", "25"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Identifier != "id1" || got.Livemode || got.Object != "billing.meter_event" || got.EventName != "tokens" ||
		got.Payload["value"] != "25" || got.Payload["stripe_customer_id"] != "cus_1" || got.Created == 0 || got.Timestamp == 0 {
		t.Errorf("answer = %+v", got)
	}
	_, err = sc.V1BillingMeterEvents.Create(ctx, usage("id1", "cus_1", "25"))
	e := refusal(t, err)
	if e.HTTPStatusCode != 400 || e.Type != stripe.ErrorTypeInvalidRequest || e.Code != "" ||
		e.Msg != "An event already exists with identifier id1." || e.LastResponse.Header.Get("Stripe-Should-Retry") != "false" {
		t.Errorf("duplicate refused with %+v", e)
	}
	entry, ok := s.Entry("id1")
	if !ok || entry.Billed != 1 || entry.Received != 2 || entry.Value != "25" || entry.Customer != "cus_1" || entry.Meter != "tokens" {
		t.Errorf("entry = %+v", entry)
	}
	if got := s.Totals(); got != (Totals{Identifiers: 1, Received: 2, Billed: 1}) {
		t.Errorf("totals = %+v", got)
	}
}
