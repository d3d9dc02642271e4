package stripe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
)

// booksOf makes books over a server that answers body, and keeps the last request.
func booksOf(t *testing.T, status int, body string, change func(*Config)) (Books, *http.Request) {
	t.Helper()
	last := &http.Request{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last = *r
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return newExporter(t, server.URL, change).Books(), last
}

func reading(hours int) reconcile.Reading {
	from := time.Unix(1_700_000_000-1_700_000_000%3600, 0)
	return reconcile.Reading{Meter: reconcile.Meter{ID: "mtr_1", Formula: reconcile.Sum}, Customer: "cus_1", From: from, To: from.Add(time.Duration(hours) * time.Hour)}
}

func summaries(rows ...string) string {
	return `{"object": "list", "has_more": false, "data": [` + strings.Join(rows, ",") + `]}`
}

func summaryRow(hour int, value string) string {
	return fmt.Sprintf(`{"id": "mtrusg_%d", "aggregated_value": %s, "livemode": false, "start_time": %d, "end_time": %d}`,
		hour, value, reading(1).From.Unix()+int64(hour)*3600, reading(1).From.Unix()+int64(hour+1)*3600)
}

// A number is taken as it is written: the SDK's float64 would lose digits.
func TestReadKeepsDigits(t *testing.T) {
	books, last := booksOf(t, 200, summaries(summaryRow(0, "9007199254740993"), summaryRow(2, "0.30000000000000004"), summaryRow(3, "1e3")), nil)
	got, err := books.Read(t.Context(), reading(4))
	if err != nil {
		t.Fatal(err)
	}
	for hour, want := range map[int64]string{0: "9007199254740993", 2: "0.30000000000000004", 3: "1000"} {
		if n := got[reading(1).From.Unix()+hour*3600]; !n.Equal(decimal.RequireFromString(want)) {
			t.Errorf("hour %d: got %s, want %s", hour, n, want)
		}
	}
	query := last.URL.Query()
	if len(got) != 3 || last.URL.Path != "/v1/billing/meters/mtr_1/event_summaries" || query.Get("value_grouping_window") != "hour" ||
		query.Get("limit") != "100" || query.Get("customer") != "cus_1" || last.Header.Get("Stripe-Account") != "" {
		t.Errorf("got %d numbers from %s", len(got), last.URL)
	}
}

// A platform asks about its connected account.
func TestReadOfConnectedAccount(t *testing.T) {
	books, last := booksOf(t, 200, summaries(), func(c *Config) { c.Account, c.Connect = "acct_1", true })
	if _, err := books.Read(t.Context(), reading(1)); err != nil || last.Header.Get("Stripe-Account") != "acct_1" {
		t.Errorf("Stripe-Account %q, %v", last.Header.Get("Stripe-Account"), err)
	}
}

// What can't be compared is an error, never a number.
func TestReadRefuses(t *testing.T) {
	tests := []struct {
		name    string
		status  int
		body    string
		hours   int
		unknown bool
	}{
		{"no customer", 404, `{"error": {"type": "invalid_request_error", "code": "resource_missing", "message": "No such customer"}}`, 1, true},
		{"bad request", 400, `{"error": {"type": "invalid_request_error", "message": "no"}}`, 1, true},
		{"no permission", 403, `{"error": {"type": "invalid_request_error", "message": "no"}}`, 1, false},
		{"too many requests", 429, `{"error": {"type": "invalid_request_error", "code": "rate_limit", "message": "no"}}`, 1, false},
		{"Stripe's trouble", 500, `{"error": {"type": "api_error", "message": "no"}}`, 1, false},
		{"a proxy's", 502, `<html>`, 1, false},
		{"the other mode", 200, strings.Replace(summaries(summaryRow(0, "1")), "false, \"start", "true, \"start", 1), 1, false},
		{"no number", 200, summaries(summaryRow(0, `"x"`)), 1, false},
		{"null", 200, summaries(summaryRow(0, `null`)), 1, false},
		{"twice", 200, summaries(summaryRow(0, "1"), summaryRow(0, "1")), 1, false},
		{"no hour", 200, `{"data": [{"aggregated_value": 1, "start_time": 1700000001}]}`, 1, false},
		{"more pages", 200, `{"data": [], "has_more": true}`, 1, false},
		{"too long", 200, summaries(), reconcile.MaxHours + 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			books, _ := booksOf(t, tt.status, tt.body, nil)
			got, err := books.Read(t.Context(), reading(tt.hours))
			if err == nil || errors.Is(err, reconcile.ErrUnknown) != tt.unknown {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// Of meters with one name the active one counts; those that pre-aggregate have no formula.
func TestMetersByEvent(t *testing.T) {
	meter := func(id, event, status, formula, window string) string {
		return fmt.Sprintf(`{"id": %q, "event_name": %q, "status": %q, "default_aggregation": {"formula": %q}, "event_time_window": %s}`, id, event, status, formula, window)
	}
	books, _ := booksOf(t, 200, `{"object": "list", "data": [`+strings.Join([]string{
		meter("mtr_new", "a", "active", "sum", "null"), meter("mtr_old", "a", "inactive", "count", "null"),
		meter("mtr_b", "b", "inactive", "last", "null"), meter("mtr_c", "c", "active", "sum", `"hour"`), meter("mtr_d", "d", "active", "max", "null"),
	}, ",")+`]}`, nil)
	got, err := books.MetersByEvent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]reconcile.Meter{"a": {ID: "mtr_new", Formula: "sum"}, "b": {ID: "mtr_b", Formula: "last"}, "c": {ID: "mtr_c"}, "d": {ID: "mtr_d"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Usage is read as Deliver sends it.
func TestUsage(t *testing.T) {
	e := newExporter(t, "http://127.0.0.1:1", nil)
	item := machine.Item{Mode: "test", SubjectKind: "usage", MappingVersion: "1",
		Payload: json.RawMessage(`{"customer": "cus_1", "meter": "m", "value": "1.50", "timestamp": "2026-11-30T12:00:00.9+01:00"}`)}
	u, ok := e.Books().Usage(&item)
	if !ok || u.Customer != "cus_1" || u.Meter != "m" || u.Value.String() != "1.5" || !u.At.Equal(time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)) || u.Cancels != nil {
		t.Errorf("got %+v, %v", u, ok)
	}
	other := item
	other.Mode = "live"
	if u, ok := e.Books().Usage(&other); ok {
		t.Errorf("of the other mode: %+v", u)
	}
	back := machine.Item{Mode: "test", SubjectKind: adjustment, Payload: json.RawMessage(`{"meter": "m", "cancel": "` + machine.Identifier([32]byte{7}) + `"}`)}
	if u, ok := e.Books().Usage(&back); !ok || u.Cancels == nil || *u.Cancels != [32]byte{7} {
		t.Errorf("a cancellation: %+v, %v", u, ok)
	}
	back.Payload = json.RawMessage(`{"meter": "m", "cancel": "somebody-elses", "received_at": 1}`)
	if u, ok := e.Books().Usage(&back); ok {
		t.Errorf("of somebody else's event: %+v", u)
	}
}

// Whatever Stripe answers, a report is read without a panic, and no count is negative.
func FuzzErrorReport(f *testing.F) {
	f.Add(`{"id": "evt_1", "data": {"reason": {"error_count": -1, "error_types": [{"error_count": "x", "sample_errors": [{"request": {"identifier": "weir_-"}}]}]}}}`)
	f.Add(`{"related_object": {"id": 1}}`)
	f.Add(`{"data": {"validation_start": "yesterday"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var body noticeBody
		if json.Unmarshal([]byte(text), &body) != nil {
			return
		}
		for _, e := range body.report().Errors {
			if e.Count < 0 || e.Code == "" {
				t.Errorf("%s: %+v", text, e)
			}
		}
	})
}
