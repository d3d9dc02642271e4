package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attempt posts one event and says what came of it in a word or two.
func attempt(t *testing.T, url string, timeout time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/billing/meter_events",
		strings.NewReader("event_name=tokens&identifier=id1&payload[stripe_customer_id]=cus_1&payload[value]=1"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk_test_weir")
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // one that can't repeat on another connection
	resp, err := fresh.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, io.EOF):
		return "closed"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case err != nil:
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return resp.Status[:3] + " truncated"
	case len(body) == 0:
		return resp.Status[:3] + " empty"
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"):
		return resp.Status[:3] + " html"
	}
	var parsed struct {
		Error struct{ Type, Code string }
	}
	if err := json.Unmarshal(body, &parsed); err != nil {
		return resp.Status[:3] + " " + string(body)
	}
	out := strings.Fields(resp.Status[:3] + " " + parsed.Error.Code)
	for _, h := range []string{"Retry-After", "Stripe-Rate-Limited-Reason"} {
		if v := resp.Header.Get(h); v != "" {
			out = append(out, v)
		}
	}
	return strings.Join(out, " ")
}

func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name    string
		action  Action
		outcome string
		billed  int
	}{
		{"refuse", Action{Kind: FaultRefuse}, "closed", 0},
		{"reset before", Action{Kind: FaultReset}, "reset", 0},
		{"reset after", Action{Kind: FaultReset, When: After}, "reset", 1},
		{"hang before", Action{Kind: FaultHang}, "timeout", 0},
		{"hang after", Action{Kind: FaultHang, When: After}, "timeout", 1},
		{"delay before", Action{Kind: FaultDelay, Delay: time.Millisecond}, "200", 1},
		{"delay after", Action{Kind: FaultDelay, Delay: time.Millisecond, When: After}, "200", 1},
		{"fail before", Action{Kind: FaultFail}, "500", 0},
		{"fail after", Action{Kind: FaultFail, When: After}, "500", 1},
		{"status", Action{Kind: FaultStatus}, "503", 0},
		{"status after", Action{Kind: FaultStatus, Status: 502, When: After}, "502", 1},
		{"html", Action{Kind: FaultStatus, Status: 502, HTML: true, RetryAfter: 3 * time.Second}, "502 html", 0},
		{"rate limit", Action{Kind: FaultRateLimit, RetryAfter: 1500 * time.Millisecond, Reason: "global-rate"}, "429 rate_limit 2 global-rate", 0},
		{"lock timeout", Action{Kind: FaultLockTimeout}, "429 lock_timeout", 0},
		{"conflict", Action{Kind: FaultConflict}, "409", 0},
		{"truncate", Action{Kind: FaultTruncate}, "200 truncated", 1},
		{"truncate before", Action{Kind: FaultTruncate, When: Before}, "200 truncated", 0},
		{"empty", Action{Kind: FaultEmpty}, "200 empty", 1},
		{"empty before", Action{Kind: FaultEmpty, When: Before}, "200 empty", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			timeout := 10 * time.Second
			if tc.outcome == "timeout" {
				timeout = 50 * time.Millisecond
			}
			s, server := start(t, Config{Faults: []Rule{{Match: Match{First: 1}, Action: tc.action}}})
			if got := attempt(t, server.URL, timeout); got != tc.outcome {
				t.Errorf("first = %q, want %q", got, tc.outcome)
			}
			if e, _ := s.Entry("id1"); e.Billed != tc.billed {
				t.Errorf("billed = %d, want %d", e.Billed, tc.billed)
			}
			want := "200"
			if tc.billed == 1 {
				want = "400"
			}
			if got := attempt(t, server.URL, 10*time.Second); got != want {
				t.Errorf("second = %q, want %q", got, want)
			}
		})
	}
}

func TestResetThroughTLS(t *testing.T) {
	s := New(Config{Meters: []Meter{tokens}})
	server := httptest.NewTLSServer(s.Handler())
	defer server.Close()
	s.Down(true)
	_, err := server.Client().Post(server.URL+"/v1/billing/meter_events", "", nil)
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestDown(t *testing.T) {
	s, server := start(t, Config{})
	s.Down(true)
	if got := attempt(t, server.URL, 10*time.Second); got != "reset" {
		t.Errorf("down: %q", got)
	}
	if resp, err := http.Get(server.URL + "/_sandbox/health"); err != nil || resp.StatusCode != 200 {
		t.Errorf("health while down: %v %v", resp, err)
	}
	s.Down(false)
	if got := attempt(t, server.URL, 10*time.Second); got != "200" {
		t.Errorf("up: %q", got)
	}
	if e, _ := s.Entry("id1"); e.Received != 1 {
		t.Errorf("received = %d; what Down refuses was never read", e.Received)
	}
}

func TestFaultMatching(t *testing.T) {
	hit := Action{Kind: FaultConflict}
	for _, tc := range []struct {
		name  string
		match Match
		want  string // of ten events id0…id9 of cus_0, cus_1, cus_0…, an x for each that was hit
	}{
		{"all", Match{}, "xxxxxxxxxx"},
		{"method", Match{Method: "get"}, ".........."},
		{"path", Match{PathPrefix: "/v1/billing/meter_events"}, "xxxxxxxxxx"},
		{"other path", Match{PathPrefix: "/v2"}, ".........."},
		{"customer", Match{Customer: "cus_1"}, ".x.x.x.x.x"},
		{"meter", Match{Meter: "tok*"}, "xxxxxxxxxx"},
		{"identifier", Match{Identifier: "id7"}, ".......x.."},
		{"first", Match{First: 3}, "xxx......."},
		{"skip and first", Match{Skip: 2, First: 3}, "..xxx....."},
		{"every", Match{Every: 3}, "..x..x..x."},
		{"every, of a customer", Match{Customer: "cus_1", Every: 2}, "...x...x.."},
		{"window", Match{From: noon.Add(3 * time.Hour), Until: noon.Add(5 * time.Hour)}, "...xx....."},
		{"never", Match{Probability: 1e-12}, ".........."},
		{"half", Match{Probability: 0.5}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run := func() string {
				s, server := start(t, Config{Start: noon, Faults: []Rule{{Match: tc.match, Action: hit}}})
				sc := client(server.URL, "sk_test_weir")
				var got strings.Builder
				for i := range 10 {
					s.SetTime(noon.Add(time.Duration(i) * time.Hour))
					_, err := sc.V1BillingMeterEvents.Create(t.Context(), usage("id"+string(rune('0'+i)), "cus_"+string(rune('0'+i%2)), "1"))
					got.WriteString(map[bool]string{true: "x", false: "."}[err != nil])
				}
				if fired := s.Faults()[0].Fired; fired != strings.Count(got.String(), "x") {
					t.Errorf("fired = %d of %s", fired, &got)
				}
				return got.String()
			}
			got := run()
			switch {
			case tc.want != "" && got != tc.want:
				t.Errorf("got %s, want %s", got, tc.want)
			case tc.want == "" && (got != run() || !strings.Contains(got, "x") || !strings.Contains(got, ".")):
				t.Errorf("got %s: the dice must be fair and, with one seed, the same", got)
			}
		})
	}
}

func TestRefuseMayDependOnTheBody(t *testing.T) {
	s, server := start(t, Config{Faults: []Rule{{Match: Match{Customer: "cus_1"}, Action: Action{Kind: FaultRefuse}}}})
	if got := attempt(t, server.URL, 10*time.Second); got != "closed" {
		t.Errorf("got %q", got)
	}
	if e, _ := s.Entry("id1"); e.Received != 1 || e.Billed != 0 {
		t.Errorf("entry = %+v", e)
	}
}

func TestRemoveFault(t *testing.T) {
	s, server := start(t, Config{})
	id, err := s.AddFault(Rule{Action: Action{Kind: FaultConflict}})
	if err != nil {
		t.Fatal(err)
	}
	if got := attempt(t, server.URL, 10*time.Second); got != "409" {
		t.Errorf("with the rule: %q", got)
	}
	if !s.RemoveFault(id) || s.RemoveFault(id) {
		t.Error("a rule can be removed once")
	}
	if got := attempt(t, server.URL, 10*time.Second); got != "200" {
		t.Errorf("without: %q", got)
	}
}

func TestFaultValidation(t *testing.T) {
	for _, r := range []Rule{
		{},
		{Action: Action{Kind: FaultDelay}},
		{Action: Action{Kind: FaultReset, When: "during"}},
		{Action: Action{Kind: FaultRateLimit, When: After}},
		{Action: Action{Kind: FaultStatus, Status: 99}},
		{Match: Match{Probability: 2}, Action: Action{Kind: FaultReset}},
		{Match: Match{First: -1}, Action: Action{Kind: FaultReset}},
	} {
		if _, err := New(Config{}).AddFault(r); err == nil {
			t.Errorf("%+v was taken", r)
		}
	}
}

func TestDelaysAddUpAndTheFirstOtherFaultWins(t *testing.T) {
	_, server := start(t, Config{Faults: []Rule{
		{Action: Action{Kind: FaultDelay, Delay: 20 * time.Millisecond}},
		{Action: Action{Kind: FaultStatus, Status: 502}},
		{Action: Action{Kind: FaultDelay, Delay: 20 * time.Millisecond}},
		{Action: Action{Kind: FaultReset}},
	}})
	begin := time.Now()
	if got := attempt(t, server.URL, 10*time.Second); got != "502" {
		t.Errorf("got %q", got)
	}
	if d := time.Since(begin); d < 40*time.Millisecond {
		t.Errorf("after %v, want 40 ms or more", d)
	}
}
