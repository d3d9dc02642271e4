package sandbox

import (
	"net/http"
	"testing"
	"time"

	stripe "github.com/stripe/stripe-go/v82"
)

func keyed(key string, p *stripe.BillingMeterEventCreateParams) *stripe.BillingMeterEventCreateParams {
	p.SetIdempotencyKey(key)
	return p
}

func TestReplayOfSuccess(t *testing.T) {
	s, server := start(t, Config{})
	sc := client(server.URL, "sk_test_weir")
	first, err := sc.V1BillingMeterEvents.Create(t.Context(), keyed("k", usage("id1", "cus_1", "25")))
	if err != nil {
		t.Fatal(err)
	}
	again, err := sc.V1BillingMeterEvents.Create(t.Context(), keyed("k", usage("id1", "cus_1", "25")))
	if err != nil {
		t.Fatal(err)
	}
	h := again.LastResponse.Header
	if string(again.LastResponse.RawJSON) != string(first.LastResponse.RawJSON) || h.Get("Idempotent-Replayed") != "true" ||
		h.Get("Original-Request") != first.LastResponse.Header.Get("Request-Id") || h.Get("Request-Id") == h.Get("Original-Request") {
		t.Errorf("replay = %s %v", again.LastResponse.RawJSON, h)
	}
	if e, _ := s.Entry("id1"); e.Billed != 1 || e.Received != 2 {
		t.Errorf("entry = %+v", e)
	}
}

func TestAnswerIsKeptBeforeItIsLost(t *testing.T) {
	for _, kind := range []Kind{FaultReset, FaultTruncate, FaultEmpty} {
		t.Run(string(kind), func(t *testing.T) {
			s, server := start(t, Config{Faults: []Rule{{Match: Match{First: 1}, Action: Action{Kind: kind, When: After}}}})
			sc := client(server.URL, "sk_test_weir")
			if _, err := sc.V1BillingMeterEvents.Create(t.Context(), keyed("k", usage("id1", "cus_1", "1"))); err == nil {
				t.Fatal("the answer arrived")
			}
			got, err := sc.V1BillingMeterEvents.Create(t.Context(), keyed("k", usage("id1", "cus_1", "1")))
			if err != nil || got.LastResponse.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("replay: %+v %v", got, err)
			}
			if e, _ := s.Entry("id1"); e.Billed != 1 {
				t.Errorf("entry = %+v", e)
			}
		})
	}
}

func TestReplayKeepsServerErrorsFor24Hours(t *testing.T) {
	for _, when := range []When{Before, After} {
		t.Run(string(when), func(t *testing.T) {
			s, server := start(t, Config{Faults: []Rule{{Match: Match{First: 1}, Action: Action{Kind: FaultFail, When: when}}}})
			sc := client(server.URL, "sk_test_weir")
			send := func(key string) error {
				_, err := sc.V1BillingMeterEvents.Create(t.Context(), keyed(key, usage("id1", "cus_1", "1")))
				return err
			}
			if e := refusal(t, send("k1")); e.HTTPStatusCode != 500 || e.LastResponse.Header.Get("Idempotent-Replayed") != "" {
				t.Fatalf("first: %v", e)
			}
			if e := refusal(t, send("k1")); e.HTTPStatusCode != 500 || e.LastResponse.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("the stored 500 isn't replayed: %v", e)
			}
			err := send("k2")
			if when == Before && err != nil {
				t.Errorf("a new key isn't executed: %v", err)
			}
			if when == After && refusal(t, err).HTTPStatusCode != 400 {
				t.Errorf("the event was accepted by the call that failed, yet: %v", err)
			}
			s.Advance(25 * time.Hour)
			if err := send("k1"); err != nil {
				t.Errorf("after 25 h the key is new: %v", err)
			}
		})
	}
}

func TestKeyWithOtherParameters(t *testing.T) {
	_, server := start(t, Config{})
	sc := client(server.URL, "sk_test_weir")
	if _, err := sc.V1BillingMeterEvents.Create(t.Context(), keyed("k", usage("id1", "cus_1", "1"))); err != nil {
		t.Fatal(err)
	}
	_, err := sc.V1BillingMeterEvents.Create(t.Context(), keyed("k", usage("id1", "cus_1", "2")))
	if e := refusal(t, err); e.HTTPStatusCode != 400 || e.Type != stripe.ErrorTypeIdempotency {
		t.Errorf("refused with %+v", e)
	}
}

func TestKeyInUse(t *testing.T) {
	s, server := start(t, Config{Faults: []Rule{{Match: Match{First: 1}, Action: Action{Kind: FaultDelay, Delay: time.Hour}}}})
	sc := client(server.URL, "sk_test_weir")
	done := make(chan error, 1)
	go func() {
		_, err := sc.V1BillingMeterEvents.Create(t.Context(), keyed("k", usage("id1", "cus_1", "1")))
		done <- err
	}()
	await(t, s, func(totals Totals) bool { return totals.Received == 1 })
	waitPending(t, s)
	_, err := sc.V1BillingMeterEvents.Create(t.Context(), keyed("k", usage("id1", "cus_1", "1")))
	if e := refusal(t, err); e.HTTPStatusCode != http.StatusConflict || e.Code != stripe.ErrorCodeIdempotencyKeyInUse {
		t.Errorf("refused with %+v", e)
	}
	s.Close() // ends the delay
	if err := <-done; err != nil {
		t.Errorf("the first call: %v", err)
	}
}

func TestValidationErrorsAreNotKept(t *testing.T) {
	_, server := start(t, Config{})
	key := http.Header{"Idempotency-Key": {"k"}}
	url := server.URL + "/v1/billing/meter_events"
	if resp := post(t, url, "event_name=tokens", key); resp.StatusCode != 400 {
		t.Fatalf("got %s", resp.Status)
	}
	if resp := post(t, url, "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1", key); resp.StatusCode != 200 {
		t.Errorf("got %s, want the key to be free", resp.Status)
	}
}
