package sandbox

import (
	"testing"

	stripe "github.com/stripe/stripe-go/v82"
)

func TestMeterLife(t *testing.T) {
	_, server := start(t, Config{Meters: []Meter{}})
	sc := client(server.URL, "sk_test_weir")
	ctx := t.Context()
	made, err := sc.V1BillingMeters.Create(ctx, &stripe.BillingMeterCreateParams{
		DisplayName: stripe.String("Tokens"), EventName: stripe.String("tokens"), EventTimeWindow: stripe.String("hour"),
		DefaultAggregation: &stripe.BillingMeterCreateDefaultAggregationParams{Formula: stripe.String("last")},
		CustomerMapping:    &stripe.BillingMeterCreateCustomerMappingParams{EventPayloadKey: stripe.String("who"), Type: stripe.String("by_id")},
		ValueSettings:      &stripe.BillingMeterCreateValueSettingsParams{EventPayloadKey: stripe.String("much")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if made.Object != "billing.meter" || made.Status != "active" || made.CustomerMapping.EventPayloadKey != "who" ||
		made.ValueSettings.EventPayloadKey != "much" || made.DefaultAggregation.Formula != "last" || made.EventTimeWindow != "hour" {
		t.Errorf("made %+v", made)
	}
	if _, err := sc.V1BillingMeters.Create(ctx, meterParams("tokens")); refusal(t, err).HTTPStatusCode != 400 {
		t.Errorf("a second active meter of the name: %v", err)
	}
	if m, err := sc.V1BillingMeters.Update(ctx, made.ID, &stripe.BillingMeterUpdateParams{DisplayName: stripe.String("T")}); err != nil || m.DisplayName != "T" {
		t.Errorf("update: %+v %v", m, err)
	}
	send := func() error {
		p := usage("", "", "")
		p.Identifier, p.Payload = nil, map[string]string{"who": "cus_1", "much": "1", "region": "eu"}
		e, err := sc.V1BillingMeterEvents.Create(ctx, p)
		if err == nil && (e.Identifier == "" || e.Payload["region"] != "eu" || e.Payload["who"] != "cus_1" || e.Payload["much"] != "1") {
			t.Errorf("event = %+v", e)
		}
		return err
	}
	if err := send(); err != nil {
		t.Error(err)
	}
	m, err := sc.V1BillingMeters.Deactivate(ctx, made.ID, nil)
	if err != nil || m.Status != "inactive" || m.StatusTransitions.DeactivatedAt == 0 {
		t.Errorf("deactivate: %+v %v", m, err)
	}
	if e := refusal(t, send()); e.Msg != `No active meter found for event name "tokens"` {
		t.Errorf("refused with %v", e)
	}
	other, err := sc.V1BillingMeters.Create(ctx, meterParams("tokens"))
	if err != nil {
		t.Fatalf("the name of an archived meter: %v", err)
	}
	if _, err := sc.V1BillingMeters.Reactivate(ctx, made.ID, nil); refusal(t, err).HTTPStatusCode != 400 {
		t.Errorf("reactivated beside another: %v", err)
	}
	if _, err := sc.V1BillingMeters.Deactivate(ctx, other.ID, nil); err != nil {
		t.Error(err)
	}
	if m, err := sc.V1BillingMeters.Reactivate(ctx, made.ID, nil); err != nil || m.Status != "active" {
		t.Errorf("reactivate: %+v %v", m, err)
	}
	if err := send(); err != nil {
		t.Errorf("after reactivation: %v", err)
	}
	if m, err := sc.V1BillingMeters.Retrieve(ctx, made.ID, nil); err != nil || m.ID != made.ID {
		t.Errorf("retrieve: %+v %v", m, err)
	}
	if _, err := client(server.URL, "sk_live_weir").V1BillingMeters.Retrieve(ctx, made.ID, nil); refusal(t, err).Code != stripe.ErrorCodeResourceMissing {
		t.Errorf("a test meter in live mode: %v", err)
	}
}

func meterParams(eventName string) *stripe.BillingMeterCreateParams {
	return &stripe.BillingMeterCreateParams{
		DisplayName: stripe.String(eventName), EventName: stripe.String(eventName),
		DefaultAggregation: &stripe.BillingMeterCreateDefaultAggregationParams{Formula: stripe.String("sum")},
	}
}

func TestMeterList(t *testing.T) {
	var meters []Meter
	for i := range 25 {
		m := Meter{EventName: string(rune('a' + i))}
		if i%5 == 0 {
			m.Status = StatusInactive
		}
		meters = append(meters, m)
	}
	_, server := start(t, Config{Meters: meters})
	sc := client(server.URL, "sk_test_weir")
	for _, tc := range []struct {
		name   string
		params stripe.BillingMeterListParams
		want   string
	}{
		{"all, in pages of ten", stripe.BillingMeterListParams{}, "yxwvutsrqponmlkjihgfedcba"},
		{"active", stripe.BillingMeterListParams{Status: stripe.String("active")}, "yxwvtsrqonmljihgedcb"},
		{"inactive, in pages of two", stripe.BillingMeterListParams{Status: stripe.String("inactive"), ListParams: stripe.ListParams{Limit: stripe.Int64(2)}}, "upkfa"},
		{"after one", stripe.BillingMeterListParams{ListParams: stripe.ListParams{StartingAfter: stripe.String("mtr_test_c")}}, "ba"},
		{"before one", stripe.BillingMeterListParams{ListParams: stripe.ListParams{EndingBefore: stripe.String("mtr_test_w"), Single: true}}, "xy"}, // the SDK turns pages that go backwards around
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			for m, err := range sc.V1BillingMeters.List(t.Context(), &tc.params) {
				if err != nil {
					t.Fatal(err)
				}
				got += m.EventName
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	for _, limit := range []int64{0, 101} {
		for _, err := range sc.V1BillingMeters.List(t.Context(), &stripe.BillingMeterListParams{ListParams: stripe.ListParams{Limit: &limit}}) {
			if refusal(t, err).Param != "limit" {
				t.Errorf("limit %d: %v", limit, err)
			}
			break
		}
	}
}

func TestCustomers(t *testing.T) {
	_, server := start(t, Config{Customers: []Customer{{ID: "cus_known", Name: "Ada"}}})
	sc := client(server.URL, "sk_test_weir")
	if c, err := sc.V1Customers.Retrieve(t.Context(), "cus_known", nil); err != nil || c.Name != "Ada" {
		t.Errorf("retrieve: %+v %v", c, err)
	}
	if _, err := sc.V1Customers.Retrieve(t.Context(), "cus_other", nil); refusal(t, err).HTTPStatusCode != 404 {
		t.Errorf("with a list there is no other: %v", err)
	}
	made, err := sc.V1Customers.Create(t.Context(), &stripe.CustomerCreateParams{Email: stripe.String("a@b.c"), Metadata: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := sc.V1Customers.Retrieve(t.Context(), made.ID, nil); err != nil || c.Email != "a@b.c" {
		t.Errorf("retrieve: %+v %v", c, err)
	}
}

func TestAccount(t *testing.T) {
	_, server := start(t, Config{Keys: []Key{{Secret: "sk_test_weir", Account: "acct_1"}}})
	sc := client(server.URL, "sk_test_weir")
	if a, err := sc.V1Accounts.Retrieve(t.Context(), nil); err != nil || a.ID != "acct_1" {
		t.Errorf("account = %+v %v", a, err)
	}
	p := &stripe.AccountRetrieveParams{}
	p.SetStripeAccount("acct_2")
	if a, err := sc.V1Accounts.Retrieve(t.Context(), p); err != nil || a.ID != "acct_2" {
		t.Errorf("connected account = %+v %v", a, err)
	}
}
