package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	stripe "github.com/stripe/stripe-go/v82"
)

func usageV2(identifier, customer, value string) *stripe.V2BillingMeterEventCreateParams {
	return &stripe.V2BillingMeterEventCreateParams{
		EventName: stripe.String("tokens"), Identifier: stripe.String(identifier),
		Payload: map[string]string{"stripe_customer_id": customer, "value": value},
	}
}

func TestEventV2(t *testing.T) {
	s, server := start(t, Config{})
	sc := client(server.URL, "sk_test_weir")
	at := time.Now().Add(-time.Hour).Truncate(time.Second).UTC()
	p := usageV2("id1", "cus_1", "2.5")
	p.Timestamp = &at
	e, err := sc.V2BillingMeterEvents.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if e.Object != "v2.billing.meter_event" || e.Identifier != "id1" || !e.Timestamp.Equal(at) || e.Created.IsZero() || e.Payload["value"] != "2.5" {
		t.Errorf("event = %+v", e)
	}
	for _, tc := range []struct {
		name   string
		params *stripe.V2BillingMeterEventCreateParams
		code   string
	}{
		{"duplicate", usageV2("id1", "cus_1", "2.5"), "duplicate_meter_event"},
		{"value", usageV2("id2", "cus_1", "x"), "payload_invalid_value"},
		{"meter", &stripe.V2BillingMeterEventCreateParams{EventName: stripe.String("no"), Payload: map[string]string{"value": "1", "stripe_customer_id": "cus_1"}}, "no_meter"},
		{"customer", &stripe.V2BillingMeterEventCreateParams{EventName: stripe.String("tokens"), Payload: map[string]string{"value": "1"}}, "payload_no_customer_defined"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := sc.V2BillingMeterEvents.Create(t.Context(), tc.params)
			var raw *stripe.V2RawError
			if !errors.As(err, &raw) || raw.Code != tc.code {
				t.Errorf("refused with %v, want %s", err, tc.code)
			}
		})
	}
	if e, _ := s.Entry("id1"); e.Billed != 1 || e.Received != 2 {
		t.Errorf("entry = %+v", e)
	}
	a, err := sc.V2BillingMeterEventAdjustments.Create(t.Context(), &stripe.V2BillingMeterEventAdjustmentCreateParams{
		EventName: stripe.String("tokens"), Type: stripe.String("cancel"),
		Cancel: &stripe.V2BillingMeterEventAdjustmentCreateCancelParams{Identifier: stripe.String("id1")},
	})
	if err != nil || a.ID == "" || a.Cancel.Identifier != "id1" {
		t.Errorf("adjustment = %+v %v", a, err)
	}
}

func TestV2ExecutesFailuresAgain(t *testing.T) {
	_, server := start(t, Config{Faults: []Rule{{Match: Match{First: 1}, Action: Action{Kind: FaultFail}}}})
	sc := client(server.URL, "sk_test_weir")
	send := func() error {
		p := usageV2("id1", "cus_1", "1")
		p.SetIdempotencyKey("k")
		_, err := sc.V2BillingMeterEvents.Create(t.Context(), p)
		return err
	}
	if send() == nil {
		t.Fatal("the fault didn't fire")
	}
	for i := range 2 { // executed, then replayed
		if err := send(); err != nil {
			t.Errorf("repetition %d: %v", i, err)
		}
	}
}

// batch of n events with identifiers from first on.
func batch(first, n int) *stripe.V2BillingMeterEventStreamCreateParams {
	p := &stripe.V2BillingMeterEventStreamCreateParams{}
	for i := first; i < first+n; i++ {
		p.Events = append(p.Events, &stripe.V2BillingMeterEventStreamCreateEventParams{
			EventName: stripe.String("tokens"), Identifier: stripe.String(fmt.Sprint("id", i)),
			Payload: map[string]string{"stripe_customer_id": "cus_1", "value": "1"},
		})
	}
	return p
}

func TestStream(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own listener %v", own), func(t *testing.T) {
			s, server := start(t, Config{})
			url := server.URL
			if own {
				stream := httptest.NewServer(s.StreamHandler())
				defer stream.Close()
				url = stream.URL
			}
			session, err := client(server.URL, "sk_live_weir").V2BillingMeterEventSessions.Create(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if life := session.ExpiresAt.Sub(session.Created); life != 15*time.Minute || !session.Livemode {
				t.Errorf("session = %+v", session)
			}
			sc := client(url, session.AuthenticationToken)
			if err := sc.V2BillingMeterEventStreams.Create(t.Context(), batch(0, 100)); err != nil {
				t.Fatal(err)
			}
			if err := sc.V2BillingMeterEventStreams.Create(t.Context(), batch(50, 100)); err != nil {
				t.Errorf("duplicates aren't reported back: %v", err)
			}
			if got, want := s.Totals(), (Totals{Identifiers: 150, Received: 200, Billed: 150}); got != want {
				t.Errorf("totals = %+v, want %+v", got, want)
			}
			if e, _ := s.Entry("id75"); !e.Live || e.Received != 2 || e.Billed != 1 {
				t.Errorf("entry = %+v", e)
			}
			if err := sc.V2BillingMeterEventStreams.Create(t.Context(), batch(0, 101)); err == nil {
				t.Error("101 events were taken")
			}
			s.Advance(15 * time.Minute)
			err = sc.V2BillingMeterEventStreams.Create(t.Context(), batch(0, 1))
			var expired *stripe.TemporarySessionExpiredError
			if !errors.As(err, &expired) || expired.Code != "billing_meter_event_session_expired" || expired.LastResponse.StatusCode != 401 {
				t.Errorf("after 15 minutes: %v", err)
			}
		})
	}
}

func TestStreamHostName(t *testing.T) {
	s, server := start(t, Config{})
	token, _ := s.sessions.open(scope{DefaultAccount, true}, s.Now())
	for path, want := range map[string]int{streamPath: 200, "/v1/billing/meters": 401} {
		req, _ := http.NewRequest(http.MethodPost, server.URL+path, strings.NewReader(`{"events":[{"event_name":"tokens","payload":{"stripe_customer_id":"cus_1","value":"1"}}]}`))
		req.Host = "meter-events.stripe.com"
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want || (want == 200 && string(body) != "{}") {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
}

func TestStreamDuplicates(t *testing.T) {
	for _, tc := range []struct {
		rule   StreamDuplicates
		totals Totals
		report int
	}{
		{DropSilently, Totals{Identifiers: 1, Received: 2, Billed: 1}, 0},
		{ReportDuplicates, Totals{Identifiers: 1, Received: 2, Billed: 1}, 1},
		{BillDuplicates, Totals{Identifiers: 1, Received: 2, Billed: 2, BilledAgain: 1}, 0},
	} {
		t.Run(string(tc.rule), func(t *testing.T) {
			s, server := start(t, Config{Behaviour: Behaviour{StreamDuplicates: tc.rule}})
			token, _ := s.sessions.open(scope{DefaultAccount, true}, s.Now())
			sc := client(server.URL, token)
			for range 2 {
				if err := sc.V2BillingMeterEventStreams.Create(t.Context(), batch(0, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.Totals(); got != tc.totals {
				t.Errorf("totals = %+v, want %+v", got, tc.totals)
			}
			if err := s.Publish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(s.world(scope{DefaultAccount, true}).noticesOf("mtr_tokens", nil, time.Time{})); got != tc.report {
				t.Errorf("%d error reports, want %d", got, tc.report)
			}
		})
	}
}

func TestV2Validation(t *testing.T) {
	s, server := start(t, Config{Behaviour: Behaviour{StreamLiveOnly: true}})
	token, _ := s.sessions.open(scope{DefaultAccount, true}, s.Now())
	for _, tc := range []struct{ name, path, body, param string }{
		{"not JSON", "meter_events", `event_name=tokens`, ""},
		{"unknown member", "meter_events", `{"event_name":"tokens","colour":"red"}`, "colour"},
		{"value is a number", "meter_events", `{"event_name":"tokens","payload":{"value":1}}`, "payload"},
		{"no payload", "meter_events", `{"event_name":"tokens"}`, "payload"},
		{"no events", "meter_event_stream", `{"events":[]}`, "events"},
		{"too many events", "meter_event_stream", `{"events":[` + strings.Repeat("{},", 100) + `{}]}`, "events"},
		{"adjustment without identifier", "meter_event_adjustments", `{"event_name":"tokens","type":"cancel"}`, "cancel[identifier]"},
		{"adjustment that isn't JSON", "meter_event_adjustments", `x`, ""},
		{"session in test mode", "meter_event_session", ``, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			header := http.Header{}
			if tc.path == "meter_event_stream" {
				header.Set("Authorization", "Bearer "+token)
			}
			wantRefusal(t, post(t, server.URL+"/v2/billing/"+tc.path, tc.body, header), 400, tc.param)
		})
	}
}

func TestStreamReportsWhatIsMalformed(t *testing.T) {
	s, server := start(t, Config{})
	token, _ := s.sessions.open(scope{DefaultAccount, true}, s.Now())
	body := `{"events":[{"event_name":"tokens"},{"identifier":"a"},{"event_name":"tokens","identifier":"ok","payload":{"stripe_customer_id":"cus_1","value":"1"}}]}`
	if resp := post(t, server.URL+streamPath, body, http.Header{"Authorization": {"Bearer " + token}}); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	if status, answer := admin(t, "POST", server.URL+"/_sandbox/publish", ""); status != 200 {
		t.Fatal(answer)
	}
	w := s.world(scope{DefaultAccount, true})
	if got := w.noticesOf("", []string{typeErrorReport}, time.Time{}); len(got) != 1 {
		t.Errorf("%d reports for the meter, want 1", len(got))
	}
	if got := w.noticesOf("", []string{typeNoMeter}, time.Time{}); len(got) != 1 {
		t.Errorf("%d reports without a meter, want 1", len(got))
	}
	if e, _ := s.Entry("ok"); e.Billed != 1 {
		t.Errorf("the good one: %+v", e)
	}
}

func TestStreamSwitches(t *testing.T) {
	good := `{"event_name":"tokens","identifier":"ok","payload":{"stripe_customer_id":"cus_1","value":"1"}}`
	for _, tc := range []struct {
		name      string
		behaviour Behaviour
		body      string
		status    int
		billed    int // after the batch was sent twice under one Idempotency-Key, 25 h apart
	}{
		{"malformed element, alone", Behaviour{}, `{"events":[` + good + `,{}]}`, 200, 2},
		{"malformed element, whole batch", Behaviour{StreamRejectsBatch: true}, `{"events":[` + good + `,{}]}`, 400, 0},
		{"idempotent", Behaviour{StreamIdempotency: true}, `{"events":[` + good + `]}`, 200, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, server := start(t, Config{Behaviour: tc.behaviour, IdempotencyWindow: 48 * time.Hour})
			for range 2 {
				token, _ := s.sessions.open(scope{DefaultAccount, true}, s.Now())
				resp := post(t, server.URL+streamPath, tc.body, http.Header{"Authorization": {"Bearer " + token}, "Idempotency-Key": {"k"}})
				if resp.StatusCode != tc.status {
					t.Errorf("got %s, want %d", resp.Status, tc.status)
				}
				s.Advance(25 * time.Hour)
			}
			if e, _ := s.Entry("ok"); e.Billed != tc.billed {
				t.Errorf("entry = %+v, want billed %d", e, tc.billed)
			}
		})
	}
}
