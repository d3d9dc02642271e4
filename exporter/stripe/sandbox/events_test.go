package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	stripe "github.com/stripe/stripe-go/v82"
)

// noon is where the clock of tests starts that name times.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func TestEventValidation(t *testing.T) { // lesson 25
	long := strings.Repeat("x", 101)
	for _, tc := range []struct {
		name, body string
		status     int
		code       string
		message    string // contained
	}{
		{"minimal", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1", 200, "", ""},
		{"encoded brackets", "event_name=tokens&payload%5Bstripe_customer_id%5D=cus_1&payload%5Bvalue%5D=1", 200, "", ""},
		{"negative decimal", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=-2.5", 200, "", ""},
		{"15 digits", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=000.123456789012345", 200, "", ""},
		{"expand", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1&expand[0]=x", 200, "", ""},
		{"unknown customer is found later", "event_name=tokens&payload[stripe_customer_id]=nobody&payload[value]=1", 200, "", ""},
		{"oldest", fmt.Sprintf("event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1&timestamp=%d", noon.Add(-35*24*time.Hour+time.Minute).Unix()), 200, "", ""},
		{"newest", fmt.Sprintf("event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1&timestamp=%d", noon.Add(5*time.Minute).Unix()), 200, "", ""},

		{"no event name", "payload[stripe_customer_id]=cus_1&payload[value]=1", 400, "parameter_missing", "Missing required param: event_name."},
		{"no payload", "event_name=tokens", 400, "parameter_missing", "payload"},
		{"unknown parameter", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1&colour=red", 400, "parameter_unknown", "Received unknown parameter: colour"},
		{"nested payload", "event_name=tokens&payload[a][b]=cus_1", 400, "parameter_unknown", "payload[a][b]"},
		{"long identifier", "event_name=tokens&identifier=" + long + "&payload[stripe_customer_id]=cus_1&payload[value]=1", 400, "", "at most 100"},
		{"long event name", "event_name=" + long + "&payload[stripe_customer_id]=cus_1&payload[value]=1", 400, "", "at most 100"},
		{"long payload value", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1&payload[x]=" + long, 400, "", "at most 100"},
		{"timestamp not a number", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1&timestamp=now", 400, "parameter_invalid_integer", "Invalid integer"},
		{"too old", fmt.Sprintf("event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1&timestamp=%d", noon.Add(-36*24*time.Hour).Unix()), 400, "",
			fmt.Sprintf("The event timestamp cannot be more than 35 days in past. Expected a timestamp greater than or equal to %d", noon.Add(-35*24*time.Hour).Unix()/100)},
		{"too new", fmt.Sprintf("event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1&timestamp=%d", noon.Add(6*time.Minute).Unix()), 400, "", "5 minutes in the future"},
		{"no meter", "event_name=nothing&payload[stripe_customer_id]=cus_1&payload[value]=1", 400, "", `No active meter found for event name \"nothing\"`},
		{"archived meter", "event_name=old&payload[stripe_customer_id]=cus_1&payload[value]=1", 400, "", `No active meter found for event name \"old\"`},
		{"no customer", "event_name=tokens&payload[value]=1", 400, "", `under the key \"stripe_customer_id\"`},
		{"no value", "event_name=tokens&payload[stripe_customer_id]=cus_1", 400, "", `under the key \"value\"`},
		{"other keys", "event_name=renamed&payload[who]=cus_1&payload[much]=1", 200, "", ""},
		{"default keys on a meter with others", "event_name=renamed&payload[stripe_customer_id]=cus_1&payload[value]=1", 400, "", `under the key \"who\"`},
		{"count needs no value", "event_name=calls&payload[stripe_customer_id]=cus_1", 200, "", ""},
		{"value is a word", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=many", 400, "", "must be a number"},
		{"value with exponent", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1e3", 400, "", "must be a number"},
		{"16 digits", "event_name=tokens&payload[stripe_customer_id]=cus_1&payload[value]=1234567890.123456", 400, "", "can have at most 15 digits. Received 1234567890.123456."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, server := start(t, Config{Start: noon, Meters: []Meter{
				tokens, {EventName: "old", Status: StatusInactive}, {EventName: "renamed", CustomerKey: "who", ValueKey: "much"},
				{EventName: "calls", Formula: FormulaCount},
			}})
			resp := post(t, server.URL+"/v1/billing/meter_events", tc.body, nil)
			raw, _ := io.ReadAll(resp.Body)
			var body struct {
				Object string
				Error  struct{ Type, Code, Message string }
			}
			if err := json.Unmarshal(raw, &body); err != nil {
				t.Fatalf("body %s: %v", raw, err)
			}
			if resp.StatusCode != tc.status || body.Error.Code != tc.code || !strings.Contains(string(raw), tc.message) {
				t.Errorf("got %d %s, want %d, code %q, %q", resp.StatusCode, raw, tc.status, tc.code, tc.message)
			}
			if tc.status == 400 && (body.Error.Type != "invalid_request_error" || resp.Header.Get("Stripe-Should-Retry") != "false") {
				t.Errorf("refusal isn't final: %v %s", resp.Header, raw)
			}
			if !strings.HasPrefix(resp.Header.Get("Request-Id"), "req_") {
				t.Errorf("no request id: %v", resp.Header)
			}
		})
	}
}

func TestBehaviourMovesRefusals(t *testing.T) {
	for _, tc := range []struct {
		name      string
		behaviour Behaviour
		event     *stripe.BillingMeterEventCreateParams
		sync      bool
		rejected  string
	}{
		{"unknown customer, default", Behaviour{}, usage("id", "nobody", "1"), false, "meter_event_customer_not_found"},
		{"unknown customer, sync", Behaviour{UnknownCustomer: Sync}, usage("id", "nobody", "1"), true, ""},
		{"bad value, default", Behaviour{}, usage("id", "cus_1", "x"), true, ""},
		{"bad value, async", Behaviour{InvalidValue: Async}, usage("id", "cus_1", "x"), false, "meter_event_invalid_value"},
		{"digits, unlimited", Behaviour{MaxDigits: -1}, usage("id", "cus_1", "1234567890123456789"), false, ""},
		{"fraction, whole numbers only", Behaviour{WholeNumbersOnly: true}, usage("id", "cus_1", "1.5"), true, ""},
		{"a sync problem wins over an async one", Behaviour{}, usage("id", "nobody", "x"), true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, server := start(t, Config{Behaviour: tc.behaviour})
			_, err := client(server.URL, "sk_test_weir").V1BillingMeterEvents.Create(t.Context(), tc.event)
			if (err != nil) != tc.sync {
				t.Fatalf("error = %v, want one: %v", err, tc.sync)
			}
			entry, _ := s.Entry("id")
			if entry.Rejected != tc.rejected || entry.Received != 1 {
				t.Errorf("entry = %+v, want rejected %q", entry, tc.rejected)
			}
			if want := tc.rejected == "" && !tc.sync; (entry.Billed == 1) != want {
				t.Errorf("billed = %d, want billed: %v", entry.Billed, want)
			}
		})
	}
}

func TestIdentifierIsFreeAgainAfterTheWindow(t *testing.T) { // lesson 25
	s, server := start(t, Config{})
	sc := client(server.URL, "sk_test_weir")
	send := func() error {
		_, err := sc.V1BillingMeterEvents.Create(t.Context(), usage("id1", "cus_1", "25"))
		return err
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	s.Advance(24*time.Hour - time.Minute)
	if e := refusal(t, send()); e.HTTPStatusCode != 400 {
		t.Errorf("inside the window: %v", e)
	}
	s.Advance(2 * time.Minute)
	if err := send(); err != nil {
		t.Errorf("after the window: %v", err)
	}
	if e, _ := s.Entry("id1"); e.Billed != 2 || e.Received != 3 {
		t.Errorf("entry = %+v, want billed twice", e)
	}
	if got := s.Totals(); got.Billed != 2 || got.BilledAgain != 1 {
		t.Errorf("totals = %+v", got)
	}
}

func TestWorldsAreSeparate(t *testing.T) {
	s, server := start(t, Config{})
	for _, tc := range []struct{ key, account string }{
		{"sk_test_weir", ""}, {"sk_live_weir", ""}, {"sk_test_weir", "acct_other"}, {"sk_live_weir", "acct_other"},
	} {
		params := usage("same", "cus_1", "1")
		if tc.account != "" {
			params.SetStripeAccount(tc.account)
		}
		got, err := client(server.URL, tc.key).V1BillingMeterEvents.Create(t.Context(), params)
		if err != nil {
			t.Fatalf("%v: %v", tc, err)
		}
		if got.Livemode != strings.HasPrefix(tc.key, "sk_live_") {
			t.Errorf("%v: livemode = %v", tc, got.Livemode)
		}
	}
	ledger := s.Ledger()
	var order []string
	for _, e := range ledger {
		order = append(order, fmt.Sprint(e.Account, " ", e.Live, " ", e.Billed))
	}
	if got, want := strings.Join(order, ", "), "acct_other false 1, acct_other true 1, acct_weir false 1, acct_weir true 1"; got != want {
		t.Errorf("ledger = %s, want %s", got, want)
	}
}

func TestConcurrentDuplicatesBillOnce(t *testing.T) {
	s, server := start(t, Config{})
	sc := client(server.URL, "sk_test_weir")
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 25 {
				_, err := sc.V1BillingMeterEvents.Create(t.Context(), usage(fmt.Sprintf("id%d", i), "cus_1", "1"))
				if err != nil && refusal(t, err).HTTPStatusCode != http.StatusBadRequest {
					t.Errorf("worker %d: %v", worker, err)
				}
			}
		})
	}
	group.Wait()
	if got, want := s.Totals(), (Totals{Identifiers: 25, Received: 200, Billed: 25}); got != want {
		t.Errorf("totals = %+v, want %+v", got, want)
	}
	if got := s.Usage(); len(got) != 1 || got[0].Events != 25 || !got[0].Value.Equal(decimal.NewFromInt(25)) {
		t.Errorf("usage = %+v", got)
	}
}

func TestFirstReceivedIsWallTime(t *testing.T) {
	s, server := start(t, Config{Start: noon})
	before := time.Now()
	post(t, server.URL+"/v1/billing/meter_events", "event_name=nothing&identifier=id1&payload[x]=1", nil)
	e, ok := s.Entry("id1")
	if !ok || e.FirstReceived.Before(before) || e.FirstReceived.After(time.Now()) || e.Billed != 0 || e.Received != 1 {
		t.Errorf("entry = %+v", e)
	}
}

// FuzzScanNumber: whatever is let through has to be a number that decimal reads, with as many digits as were counted.
func FuzzScanNumber(f *testing.F) {
	for _, s := range []string{"1", "-0.50", "00012", ".5", "5.", "1e3", "--1", "", "١"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		digits, whole, ok := scanNumber(s)
		if !ok {
			return
		}
		d, err := decimal.NewFromString(s)
		if err != nil {
			t.Fatalf("scanNumber takes %q, decimal doesn't: %v", s, err)
		}
		if n := d.NumDigits(); !d.IsZero() && n != digits {
			t.Errorf("%q: counted %d digits, decimal says %d", s, digits, n)
		}
		if whole && !d.IsInteger() {
			t.Errorf("%q isn't whole", s)
		}
	})
}

func FuzzParseForm(f *testing.F) {
	f.Add("event_name=tokens&payload[stripe_customer_id]=cus_1&payload%5Bvalue%5D=1&&=&%")
	f.Fuzz(func(t *testing.T, s string) {
		c := &call{body: []byte(s)}
		if err := decodeEventV1(c); err == nil && len(c.events) != 1 {
			t.Errorf("%q: %d events", s, len(c.events))
		}
	})
}
