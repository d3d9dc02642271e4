package sandbox

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	stripe "github.com/stripe/stripe-go/v82"
)

const secret = "whsec_weir"

// inbox is a webhook endpoint: it keeps what the SDK verified and answers what status says.
func inbox(t *testing.T, status func() int) (url string, got chan *stripe.ThinEvent) {
	t.Helper()
	got = make(chan *stripe.ThinEvent, 100)
	sc := stripe.NewClient("unused")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payload, _ := io.ReadAll(r.Body)
		e, err := sc.ParseThinEvent(payload, r.Header.Get("Stripe-Signature"), secret)
		if err != nil {
			t.Errorf("signature: %v", err)
		} else if strings.Contains(string(payload), "error_count") {
			t.Errorf("a thin event carries data: %s", payload)
		}
		w.WriteHeader(status())
		got <- e
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

func TestErrorReports(t *testing.T) {
	url, got := inbox(t, func() int { return 200 })
	s, server := start(t, Config{
		ReportSamples: 2, Webhooks: []Webhook{{URL: url, Secret: secret}}, Start: noon, // far from the wall clock
		Behaviour: Behaviour{UnknownMeter: Async, InvalidValue: Async},
	})
	sc := client(server.URL, "sk_test_weir")
	for _, p := range []*stripe.BillingMeterEventCreateParams{
		usage("a", "nobody", "1"), usage("b", "nobody", "1"), usage("c", "nobody", "1"), usage("d", "cus_1", "x"), usage("e", "cus_1", "1"),
		{EventName: stripe.String("nothing"), Identifier: stripe.String("f"), Payload: map[string]string{"value": "1", "stripe_customer_id": "cus_1"}},
	} {
		if _, err := sc.V1BillingMeterEvents.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.Totals(), (Totals{Identifiers: 6, Received: 6, Billed: 1, Rejected: 5}); got != want {
		t.Errorf("totals = %+v, want %+v", got, want)
	}
	if err := s.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 2 {
		thin := <-got
		if thin == nil {
			t.FailNow()
		}
		full, err := sc.V2CoreEvents.Retrieve(t.Context(), thin.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen[thin.Type] = true
		switch e := full.(type) {
		case *stripe.V1BillingMeterErrorReportTriggeredEvent:
			r := e.Data.Reason
			if e.RelatedObject.ID != "mtr_test_tokens" || r.ErrorCount != 4 || len(r.ErrorTypes) != 2 ||
				r.ErrorTypes[0].Code != "meter_event_customer_not_found" || r.ErrorTypes[0].ErrorCount != 3 ||
				len(r.ErrorTypes[0].SampleErrors) != 2 || r.ErrorTypes[0].SampleErrors[0].Request.Identifier != "a" ||
				r.ErrorTypes[1].Code != "meter_event_invalid_value" {
				t.Errorf("report = %+v", e.Data)
			}
			if m, err := e.FetchRelatedObject(); err != nil || m.EventName != "tokens" {
				t.Errorf("related object = %+v %v", m, err)
			}
		case *stripe.V1BillingMeterNoMeterFoundEvent:
			if e.Data.Reason.ErrorTypes[0].Code != "no_meter" || thin.RelatedObject != nil {
				t.Errorf("report = %+v", e.Data)
			}
		default:
			t.Errorf("event = %T", full)
		}
	}
	if !seen[typeErrorReport] || !seen[typeNoMeter] {
		t.Errorf("types = %v", seen)
	}
}

func TestErrorReportsClose(t *testing.T) {
	url, got := inbox(t, func() int { return 200 })
	s, server := start(t, Config{Webhooks: []Webhook{{URL: url, Secret: secret}}})
	running := make(chan error, 1)
	go func() { running <- s.Run(t.Context()) }()
	sc := client(server.URL, "sk_test_weir")
	for i, id := range []string{"a", "b", "c"} {
		if _, err := sc.V1BillingMeterEvents.Create(t.Context(), usage(id, "nobody", "1")); err != nil {
			t.Fatal(err)
		}
		s.Advance(10 * time.Second) // a window
		if e := <-got; e == nil {
			t.Fatalf("window %d: no event", i)
		}
	}
	n := 0
	for _, err := range sc.V2CoreEvents.List(t.Context(), &stripe.V2CoreEventListParams{ObjectID: stripe.String("mtr_test_tokens"), Limit: stripe.Int64(2)}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("listed %d events in pages of two, want 3", n)
	}
	s.Advance(31 * 24 * time.Hour)
	for e := range sc.V2CoreEvents.List(t.Context(), &stripe.V2CoreEventListParams{ObjectID: stripe.String("mtr_test_tokens")}) {
		t.Errorf("after 30 days: %v", e)
	}
}

func TestWebhooksAreRepeated(t *testing.T) {
	status := 500
	url, got := inbox(t, func() int { return status })
	s, server := start(t, Config{Webhooks: []Webhook{{URL: url, Secret: secret}}})
	if _, err := client(server.URL, "sk_test_weir").V1BillingMeterEvents.Create(t.Context(), usage("a", "nobody", "1")); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("Publish = %v", err)
	}
	first := <-got
	status = 204
	if err := s.Publish(t.Context()); err != nil {
		t.Errorf("Publish = %v", err)
	}
	if second := <-got; second.ID != first.ID {
		t.Errorf("repeated as %s, was %s", second.ID, first.ID)
	}
	if err := s.Publish(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("delivered twice: %v", err)
	}
}
