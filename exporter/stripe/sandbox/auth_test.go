package sandbox

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestAuthentication(t *testing.T) {
	const event = "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1"
	cfg := Config{
		Keys: []Key{
			{Secret: "sk_test_weir"},
			{Secret: "rk_test_events", Allow: []string{"/v1/billing/meter_events"}},
		},
		Connected: []string{"acct_child"},
	}
	for _, tc := range []struct {
		name, path string
		header     http.Header
		status     int
		message    string
	}{
		{"bearer", "/v1/billing/meter_events", http.Header{"Authorization": {"Bearer sk_test_weir"}}, 200, ""},
		{"basic", "/v1/billing/meter_events", http.Header{"Authorization": {"Basic c2tfdGVzdF93ZWlyOg=="}}, 200, ""},
		{"none", "/v1/billing/meter_events", http.Header{"Authorization": nil}, 401, "You did not provide an API key."},
		{"unknown", "/v1/billing/meter_events", http.Header{"Authorization": {"Bearer sk_test_1234567890"}}, 401, "Invalid API Key provided: sk_test_******7890"},
		{"restricted, allowed", "/v1/billing/meter_events", http.Header{"Authorization": {"Bearer rk_test_events"}}, 200, ""},
		{"restricted, not allowed", "/v1/billing/meters", http.Header{"Authorization": {"Bearer rk_test_events"}}, 403, "does not have the required permissions"},
		{"connected", "/v1/billing/meter_events", http.Header{"Stripe-Account": {"acct_child"}}, 200, ""},
		{"not connected", "/v1/billing/meter_events", http.Header{"Stripe-Account": {"acct_stranger"}}, 403, "does not have access to account 'acct_stranger'"},
		{"unknown URL", "/v1/charges", nil, 404, "Unrecognized request URL (POST: /v1/charges)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, server := start(t, cfg)
			resp := post(t, server.URL+tc.path, event, tc.header)
			var body struct {
				Error struct{ Type, Message string }
			}
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tc.status || !strings.Contains(body.Error.Message, tc.message) {
				t.Errorf("got %d %+v, want %d %q", resp.StatusCode, body, tc.status, tc.message)
			}
			if tc.status >= 400 && body.Error.Type != "invalid_request_error" {
				t.Errorf("type = %q", body.Error.Type)
			}
			if got := resp.Header.Get("Www-Authenticate"); (got != "") != (tc.status == 401) {
				t.Errorf("WWW-Authenticate = %q with %d", got, tc.status)
			}
		})
	}
}

func TestInvalidConfigIsSaidAloud(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{Keys: []Key{{Secret: "pk_test_1"}}}, "need a prefix"},
		{Config{Meters: []Meter{{}}}, "need an event name"},
		{Config{Meters: []Meter{{EventName: "a"}, {EventName: "a"}}}, "two active meters"},
		{Config{Meters: []Meter{{EventName: "a", Formula: "max"}}}, `formula "max": need sum, count or last`},
		{Config{Faults: []Rule{{Action: Action{Kind: "explode"}}}}, `kind: got "explode"`},
		{Config{Webhooks: []Webhook{{URL: "localhost"}}}, "need an http or https URL"},
		{Config{Concurrency: "500"}, "concurrency: got 500"},
		{Config{Behaviour: Behaviour{InvalidValue: "later"}}, `phase "later"`},
	} {
		t.Run(tc.want, func(t *testing.T) {
			if err := tc.cfg.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Validate = %v", err)
			}
			if err := New(tc.cfg).Run(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run = %v", err)
			}
			_, server := start(t, tc.cfg)
			if tc.cfg.Meters == nil {
				if resp := post(t, server.URL+"/v1/billing/meter_events", "", nil); resp.StatusCode != 500 {
					t.Errorf("answers %s", resp.Status)
				}
			}
		})
	}
}
