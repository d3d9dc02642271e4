package sandbox

import (
	"fmt"
	"testing"
	"time"

	stripe "github.com/stripe/stripe-go/v82"
)

func TestRateLimits(t *testing.T) {
	for _, tc := range []struct {
		name, key, account string
		burst              int
		reason             string
	}{
		{"live events", "sk_live_weir", "", 40, "endpoint-rate"},
		{"test mode", "sk_test_weir", "", 25, "global-rate"},
		{"connected", "sk_live_weir", "acct_other", 10, "global-rate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, server := start(t, Config{Limits: Limits{MeterEvents: 40, Other: 10, Test: 25}})
			sc := client(server.URL, tc.key)
			send := func(i int) error {
				params := keyed(fmt.Sprint("k", i), usage(fmt.Sprint("id", i), "cus_1", "1"))
				if tc.account != "" {
					params.SetStripeAccount(tc.account)
				}
				_, err := sc.V1BillingMeterEvents.Create(t.Context(), params)
				return err
			}
			var refused error
			sent := 0
			for ; refused == nil && sent < 10*tc.burst; sent++ {
				refused = send(sent)
			}
			e := refusal(t, refused)
			if e.HTTPStatusCode != 429 || e.Code != stripe.ErrorCodeRateLimit ||
				e.LastResponse.Header.Get("Stripe-Rate-Limited-Reason") != tc.reason {
				t.Errorf("refused with %+v %v", e, e.LastResponse.Header)
			}
			if sent <= tc.burst {
				t.Errorf("refused after %d calls, want more than %d", sent, tc.burst)
			}
			s.Advance(time.Second)
			if err := send(sent - 1); err != nil {
				t.Errorf("the same key a second later: %v; a 429 must not be kept", err)
			}
		})
	}
}

func TestOneCallInFlightForCustomerAndMeter(t *testing.T) {
	for _, tc := range []struct {
		rule   Concurrency
		status int
		code   stripe.ErrorCode
		reason string
	}{
		{ConcurrencyAllowed, 200, "", ""},
		{ConcurrencyRateLimited, 429, stripe.ErrorCodeRateLimit, "resource-specific"},
		{ConcurrencyConflict, 409, "", ""},
		{ConcurrencyLockTimeout, 429, stripe.ErrorCodeLockTimeout, ""},
	} {
		t.Run(string(tc.rule), func(t *testing.T) {
			s, server := start(t, Config{Concurrency: tc.rule, Faults: []Rule{
				{Match: Match{Identifier: "slow"}, Action: Action{Kind: FaultDelay, Delay: time.Hour}},
			}})
			sc := client(server.URL, "sk_test_weir")
			send := func(identifier, customer string) error {
				_, err := sc.V1BillingMeterEvents.Create(t.Context(), usage(identifier, customer, "1"))
				return err
			}
			slow := make(chan error, 1)
			go func() { slow <- send("slow", "cus_1") }()
			if tc.rule == ConcurrencyAllowed {
				await(t, s, func(totals Totals) bool { return totals.Received == 1 })
			} else {
				waitBusy(t, s)
			}
			if err := send("other", "cus_2"); err != nil {
				t.Errorf("another customer: %v", err)
			}
			err := send("second", "cus_1")
			if tc.status == 200 {
				if err != nil {
					t.Error(err)
				}
			} else if e := refusal(t, err); e.HTTPStatusCode != tc.status || e.Code != tc.code ||
				e.LastResponse.Header.Get("Stripe-Rate-Limited-Reason") != tc.reason {
				t.Errorf("refused with %+v", e)
			}
			s.Close()
			if err := <-slow; err != nil {
				t.Error(err)
			}
			if tc.status != 200 {
				if err := send("second", "cus_1"); err != nil {
					t.Errorf("after the first has ended: %v", err)
				}
			}
		})
	}
}
