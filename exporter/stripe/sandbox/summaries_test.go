package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	stripe "github.com/stripe/stripe-go/v82"
)

// summaries lists aggregated values, formatted with their start relative to noon.
func summaries(t *testing.T, sc *stripe.Client, meter, customer string, from, to time.Time, window string, limit int64) (string, error) {
	t.Helper()
	params := &stripe.BillingMeterEventSummaryListParams{
		ID: stripe.String(meter), Customer: stripe.String(customer),
		StartTime: stripe.Int64(from.Unix()), EndTime: stripe.Int64(to.Unix()),
	}
	if window != "" {
		params.ValueGroupingWindow = stripe.String(window)
	}
	if limit != 0 {
		params.Limit = stripe.Int64(limit)
	}
	var out []string
	for s, err := range sc.V1BillingMeterEventSummaries.List(t.Context(), params) {
		if err != nil {
			return "", err
		}
		if s.Object != "billing.meter_event_summary" || s.Meter != meter || s.ID == "" {
			t.Errorf("summary = %+v", s)
		}
		out = append(out, fmt.Sprintf("%v:%v", time.Unix(s.StartTime, 0).Sub(noon).Hours(), s.AggregatedValue))
	}
	return strings.Join(out, " "), nil
}

func TestSummaries(t *testing.T) {
	meters := []Meter{{EventName: "sum"}, {EventName: "count", Formula: FormulaCount}, {EventName: "last", Formula: FormulaLast}, {EventName: "hourly", EventTimeWindow: WindowHour}}
	_, server := start(t, Config{Start: noon, Meters: meters})
	sc := client(server.URL, "sk_test_weir")
	for i, e := range []struct {
		before time.Duration
		value  string
	}{ // accepted in this order
		{30 * time.Minute, "0.1"}, {45 * time.Minute, "0.2"}, {2 * time.Hour, "5"}, {2*time.Hour - time.Minute, "7"}, {26 * time.Hour, "-3"},
	} {
		for _, m := range meters {
			_, err := sc.V1BillingMeterEvents.Create(t.Context(), &stripe.BillingMeterEventCreateParams{
				EventName: stripe.String(m.EventName), Identifier: stripe.String(fmt.Sprint(m.EventName, i)),
				Payload: map[string]string{"stripe_customer_id": "cus_1", "value": e.value}, Timestamp: stripe.Int64(noon.Add(-e.before).Unix()),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	midnight := noon.Truncate(24 * time.Hour)
	for _, tc := range []struct {
		name, meter, customer string
		from, to              time.Time
		window                string
		limit                 int64
		want                  string
	}{
		{"exact decimals", "sum", "cus_1", noon.Add(-time.Hour), noon, "", 0, "-1:0.3"},
		{"whole range", "sum", "cus_1", noon.Add(-48 * time.Hour), noon, "", 0, "-48:9.3"},
		{"start is inside", "sum", "cus_1", noon.Add(-2 * time.Hour), noon.Add(-2*time.Hour + time.Minute), "", 0, "-2:5"},
		{"end is outside", "sum", "cus_1", noon.Add(-3 * time.Hour), noon.Add(-2 * time.Hour), "", 0, "-3:0"},
		{"count", "count", "cus_1", noon.Add(-48 * time.Hour), noon, "", 0, "-48:5"},
		{"last by timestamp, not by arrival", "last", "cus_1", noon.Add(-48 * time.Hour), noon, "", 0, "-48:0.1"},
		{"pre-aggregated: the newest of each hour", "hourly", "cus_1", noon.Add(-48 * time.Hour), noon, "", 0, "-48:4.1"},
		{"by hour", "sum", "cus_1", noon.Add(-48 * time.Hour), noon, "hour", 0, "-1:0.3 -2:12 -26:-3"},
		{"by hour, in pages of one", "sum", "cus_1", noon.Add(-48 * time.Hour), noon, "hour", 1, "-1:0.3 -2:12 -26:-3"},
		{"by UTC day", "sum", "cus_1", midnight.Add(-24 * time.Hour), midnight.Add(24 * time.Hour), "day", 0, "-12:12.3 -36:-3"},
		{"nobody's", "sum", "cus_2", noon.Add(-time.Hour), noon, "", 0, "-1:0"},
		{"nobody's by hour", "sum", "cus_2", noon.Add(-time.Hour), noon, "hour", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := summaries(t, sc, "mtr_test_"+tc.meter, tc.customer, tc.from, tc.to, tc.window, tc.limit)
			if err != nil || got != tc.want {
				t.Errorf("got %q %v, want %q", got, err, tc.want)
			}
		})
	}
	for _, tc := range []struct {
		name     string
		from, to time.Time
		window   string
		param    string
	}{
		{"minute", noon.Add(time.Second), noon.Add(time.Hour), "", "start_time"},
		{"hour", noon, noon.Add(time.Minute), "hour", "end_time"},
		{"UTC day", noon, noon.Add(24 * time.Hour), "day", "start_time"},
		{"order", noon, noon, "", "end_time"},
		{"window", noon, noon.Add(time.Hour), "minute", "value_grouping_window"},
	} {
		t.Run("misaligned "+tc.name, func(t *testing.T) {
			_, err := summaries(t, sc, "mtr_test_sum", "cus_1", tc.from, tc.to, tc.window, 0)
			if e := refusal(t, err); e.HTTPStatusCode != 400 || e.Param != tc.param {
				t.Errorf("refused with %+v, want param %s", e, tc.param)
			}
		})
	}
}

func TestSummariesAreEventuallyConsistent(t *testing.T) {
	s, server := start(t, Config{ProcessingDelay: time.Minute})
	sc := client(server.URL, "sk_test_weir")
	if _, err := sc.V1BillingMeterEvents.Create(t.Context(), usage("id1", "cus_1", "3")); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		from := time.Now().Truncate(time.Hour).Add(-time.Hour)
		got, err := summaries(t, sc, "mtr_test_tokens", "cus_1", from, from.Add(3*time.Hour), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		_, value, _ := strings.Cut(got, ":")
		return value
	}
	if got := read(); got != "0" {
		t.Errorf("at once: %s", got)
	}
	s.Advance(time.Minute)
	if got := read(); got != "3" {
		t.Errorf("after the delay: %s", got)
	}
}

func TestAdjustments(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("reuse %v", reuse), func(t *testing.T) {
			s, server := start(t, Config{Behaviour: Behaviour{ReuseCancelled: reuse}})
			sc := client(server.URL, "sk_test_weir")
			cancel := func(identifier string) (*stripe.BillingMeterEventAdjustment, error) {
				return sc.V1BillingMeterEventAdjustments.Create(t.Context(), &stripe.BillingMeterEventAdjustmentCreateParams{
					EventName: stripe.String("tokens"), Type: stripe.String("cancel"),
					Cancel: &stripe.BillingMeterEventAdjustmentCreateCancelParams{Identifier: stripe.String(identifier)},
				})
			}
			for _, id := range []string{"id1", "id2"} {
				if _, err := sc.V1BillingMeterEvents.Create(t.Context(), usage(id, "cus_1", "3")); err != nil {
					t.Fatal(err)
				}
			}
			a, err := cancel("id1")
			if err != nil || a.Cancel.Identifier != "id1" || a.Status != "pending" || a.Type != "cancel" || a.EventName != "tokens" {
				t.Errorf("adjustment = %+v %v", a, err)
			}
			if u := s.Usage(); u[0].Events != 1 || u[0].Value.String() != "3" {
				t.Errorf("usage = %+v", u)
			}
			if e, _ := s.Entry("id1"); !e.Cancelled {
				t.Errorf("entry = %+v", e)
			}
			if _, err := cancel("id1"); refusal(t, err).HTTPStatusCode != 400 {
				t.Errorf("cancelled again: %v", err)
			}
			if _, err := cancel("never"); refusal(t, err).HTTPStatusCode != 400 {
				t.Errorf("cancelled what never was: %v", err)
			}
			_, err = sc.V1BillingMeterEvents.Create(t.Context(), usage("id1", "cus_1", "4"))
			if (err == nil) != reuse {
				t.Errorf("the identifier again: %v", err)
			}
			want := Totals{Identifiers: 2, Received: 3, Billed: 1, Cancelled: 1}
			if reuse {
				want.Billed++
			}
			if got := s.Totals(); got != want {
				t.Errorf("totals = %+v, want %+v", got, want)
			}
			s.Advance(25 * time.Hour)
			if _, err := cancel("id2"); refusal(t, err).HTTPStatusCode != 400 {
				t.Errorf("cancelled after 25 h: %v", err)
			}
		})
	}
}

func TestAdjustmentTakesTheSecondChargeBack(t *testing.T) {
	s, server := start(t, Config{})
	sc := client(server.URL, "sk_test_weir")
	for range 2 {
		if _, err := sc.V1BillingMeterEvents.Create(t.Context(), usage("id1", "cus_1", "3")); err != nil {
			t.Fatal(err)
		}
		s.Advance(25 * time.Hour)
	}
	s.Advance(-2 * time.Hour)
	_, err := sc.V1BillingMeterEventAdjustments.Create(t.Context(), &stripe.BillingMeterEventAdjustmentCreateParams{
		EventName: stripe.String("tokens"), Type: stripe.String("cancel"),
		Cancel: &stripe.BillingMeterEventAdjustmentCreateCancelParams{Identifier: stripe.String("id1")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Totals(), (Totals{Identifiers: 1, Received: 2, Billed: 1, Cancelled: 1}); got != want {
		t.Errorf("totals = %+v, want %+v", got, want)
	}
	if e, _ := s.Entry("id1"); e.Billed != 1 || !e.Cancelled {
		t.Errorf("entry = %+v", e)
	}
}

func TestAdjustmentValidation(t *testing.T) {
	for _, tc := range []struct{ name, body, param string }{
		{"no event name", "type=cancel&cancel[identifier]=a", "event_name"},
		{"no type", "event_name=tokens&cancel[identifier]=a", "type"},
		{"another type", "event_name=tokens&type=range&cancel[identifier]=a", "type"},
		{"no identifier", "event_name=tokens&type=cancel", "cancel[identifier]"},
		{"unknown parameter", "event_name=tokens&type=cancel&cancel[identifier]=a&why=x", "why"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, server := start(t, Config{})
			wantRefusal(t, post(t, server.URL+"/v1/billing/meter_event_adjustments", tc.body, nil), 400, tc.param)
		})
	}
}
