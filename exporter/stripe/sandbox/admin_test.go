package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// admin calls an admin endpoint and returns status and body.
func admin(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func TestAdmin(t *testing.T) {
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		contains                 string
	}{
		{"health", "GET", "health", "", 200, `"status":"ok"`},
		{"clock", "POST", "clock", `{"advance":"25h"}`, 200, `"offset":"25h0m0s"`},
		{"clock, set", "POST", "clock", `{"set":"2026-03-04T12:00:00Z"}`, 200, `"now":"2026-03-04T12:00:00`},
		{"clock, neither", "POST", "clock", `{}`, 400, `need either`},
		{"clock, misspelt", "POST", "clock", `{"advence":"1h"}`, 400, `unknown field`},
		{"fault", "POST", "faults", `{"match":{"customer":"cus_*","first":2},"action":{"kind":"delay","delay":"250ms"}}`, 200, `"ids":[1]`},
		{"faults", "POST", "faults", `[{"action":{"kind":"reset"}},{"action":{"kind":"fail","when":"after"}}]`, 200, `"ids":[1,2]`},
		{"fault, unknown kind", "POST", "faults", `{"action":{"kind":"explode"}}`, 400, `need refuse, reset`},
		{"fault, misspelt", "POST", "faults", `{"match":{"custmer":"x"},"action":{"kind":"reset"}}`, 400, `custmer`},
		{"fault, misspelt action", "POST", "faults", `{"action":{"kind":"delay","dely":"1s"}}`, 400, `dely`},
		{"fault, impossible", "POST", "faults", `{"action":{"kind":"conflict","when":"after"}}`, 400, `need before`},
		{"no such fault", "DELETE", "faults/7", "", 400, `there is none`},
		{"seed", "POST", "seed", `{"meters":[{"event_name":"calls","formula":"count"}],"customers":[{"id":"cus_9"}]}`, 200, `"meters":1`},
		{"seed, taken", "POST", "seed", `{"meters":[{"id":"mtr_1","event_name":"tokens"}]}`, 400, `mtr_test_tokens is active`},
		{"seed, replaced", "POST", "seed", `{"meters":[{"event_name":"tokens","formula":"last"}]}`, 200, `"meters":1`},
		{"seed, customer without id", "POST", "seed", `{"customers":[{"name":"Ada"}]}`, 400, `need an id`},
		{"seed, bad", "POST", "seed", `{"meters":[{"event_name":"calls","formula":"max"}]}`, 400, `need sum`},
		{"down", "POST", "down", `{"down":true}`, 200, `"down":true`},
		{"unknown", "GET", "nothing", "", 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, server := start(t, Config{})
			status, body := admin(t, tc.method, server.URL+"/_sandbox/"+tc.path, tc.body)
			if status != tc.status || !strings.Contains(body, tc.contains) {
				t.Errorf("got %d %s, want %d and %s", status, body, tc.status, tc.contains)
			}
		})
	}
}

func TestAdminFaultRoundTrip(t *testing.T) {
	s, server := start(t, Config{})
	const rule = `{"id":1,"name":"flaky","match":{"customer":"cus_*","first":2},"action":{"kind":"delay","when":"before","delay":"250ms"},"matched":0,"fired":0}`
	if status, body := admin(t, "POST", server.URL+"/_sandbox/faults", rule); status != 200 {
		t.Fatal(body)
	}
	if _, body := admin(t, "GET", server.URL+"/_sandbox/faults", ""); strings.TrimSpace(body) != `{"faults":[`+rule+`]}` {
		t.Errorf("rules = %s", body)
	}
	if got := s.Faults()[0].Action.Delay; got != 250*time.Millisecond {
		t.Errorf("delay = %v", got)
	}
	if _, body := admin(t, "DELETE", server.URL+"/_sandbox/faults", ""); strings.TrimSpace(body) != `{"faults":[]}` {
		t.Errorf("rules = %s", body)
	}
}

func TestAdminLedger(t *testing.T) {
	s, server := start(t, Config{})
	sc := client(server.URL, "sk_test_weir")
	for _, id := range []string{"a", "b", "c"} {
		if _, err := sc.V1BillingMeterEvents.Create(t.Context(), usage(id, "cus_1", "2")); err != nil {
			t.Fatal(err)
		}
	}
	s.Advance(25 * time.Hour)
	if _, err := sc.V1BillingMeterEvents.Create(t.Context(), usage("b", "cus_1", "2")); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"": 3, "?again=1": 1, "?identifier=b": 1, "?identifier=z": 0} {
		_, body := admin(t, "GET", server.URL+"/_sandbox/ledger"+query, "")
		lines := bufio.NewScanner(strings.NewReader(body))
		n := 0
		for ; lines.Scan(); n++ {
			var e Entry
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Customer != "cus_1" || e.Billed == 0 {
				t.Errorf("line %s: %v", lines.Bytes(), err)
			}
		}
		if n != want {
			t.Errorf("ledger%s has %d lines, want %d", query, n, want)
		}
	}
	if _, body := admin(t, "GET", server.URL+"/_sandbox/summary", ""); !strings.Contains(body, `"billed":4,"billed_again":1`) || !strings.Contains(body, `"events":4,"value":"8"`) {
		t.Errorf("summary = %s", body)
	}
	admin(t, "POST", server.URL+"/_sandbox/reset", "")
	if got := s.Totals(); got != (Totals{}) {
		t.Errorf("after reset: %+v", got)
	}
	if d := time.Until(s.Now()).Abs(); d > time.Minute {
		t.Errorf("after reset the clock is %v off", d)
	}
	if _, err := sc.V1BillingMeterEvents.Create(t.Context(), usage("a", "cus_1", "2")); err != nil {
		t.Errorf("configured meters survive a reset: %v", err)
	}
}

func TestSeedReachesModes(t *testing.T) {
	s, server := start(t, Config{Customers: []Customer{{ID: "cus_0"}}})
	if err := s.Seed(Seed{Meters: []Meter{{EventName: "calls", Mode: LiveMode}}, Customers: []Customer{{ID: "cus_1", Mode: TestMode}}}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		key, path string
		status    int
	}{
		{"sk_live_weir", "/v1/billing/meters/mtr_calls", 200}, {"sk_test_weir", "/v1/billing/meters/mtr_test_calls", 404},
		{"sk_live_weir", "/v1/customers/cus_1", 404}, {"sk_test_weir", "/v1/customers/cus_1", 200},
	} {
		req, _ := http.NewRequest(http.MethodGet, server.URL+tc.path, nil)
		req.SetBasicAuth(tc.key, "")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tc.status {
			t.Errorf("%s with %s: %s, want %d", tc.path, tc.key, resp.Status, tc.status)
		}
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Meters: []Meter{tokens}, Faults: []Rule{{Action: Action{Kind: FaultHang}}}})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	hung := make(chan error, 1)
	go func() {
		_, err := client("http://"+l.Addr().String(), "sk_test_weir").V1BillingMeterEvents.Create(t.Context(), usage("a", "cus_1", "1"))
		hung <- err
	}()
	await(t, s, func(totals Totals) bool { return totals.Received == 1 })
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if err := <-hung; err == nil {
		t.Error("the hanging call succeeded")
	}
}
