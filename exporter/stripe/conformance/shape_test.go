package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
)

// standIn is a sandbox with a meter mtr_123, as stripe-mock's is called, and an inactive one, mtr_off.
func standIn(t *testing.T) (*sandbox.Sandbox, string) {
	t.Helper()
	s := sandbox.New(sandbox.Config{Meters: []sandbox.Meter{
		{ID: "mtr_123", EventName: "tokens"}, {ID: "mtr_off", EventName: "old", Status: sandbox.StatusInactive},
	}})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.Close)
	return s, server.URL
}

// ask makes a request and answers status and body. An empty form is a GET.
func ask(t *testing.T, url, key, path, form string) (int, any) {
	t.Helper()
	method := http.MethodPost
	if form == "" {
		method = http.MethodGet
	}
	if form == "{}" {
		form = ""
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var body any
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
	return response.StatusCode, body
}

// shape writes down the keys of a value and the JSON type of each, by path; of a list that of its first element.
func shape(path string, v any, out map[string]string) {
	switch v := v.(type) {
	case nil:
		out[path] = "null"
	case bool:
		out[path] = "boolean"
	case float64:
		out[path] = "number"
	case string:
		out[path] = "string"
	case []any:
		out[path] = "array"
		if len(v) > 0 {
			shape(path+"[]", v[0], out)
		}
	case map[string]any:
		out[path] = "object"
		for key, value := range v {
			shape(path+"."+key, value, out)
		}
	}
}

// differences compares what the stand-in answers with what stripe-mock does. Keys below a path in free are the
// caller's own. A null says nothing of the other's type. Where more is allowed, the stand-in may have those as well.
func differences(theirs, ours any, free []string, more map[string]string) []string {
	want, got := map[string]string{}, map[string]string{}
	shape("", theirs, want)
	shape("", ours, got)
	var out []string
	known := maps.Clone(want)
	maps.Copy(known, more)
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if slices.ContainsFunc(free, func(f string) bool { return strings.HasPrefix(path, f+".") }) {
			continue
		}
		switch w, ok := known[path]; {
		case !ok:
			out = append(out, fmt.Sprintf("%s: Stripe's has none", path))
		case w != got[path] && w != "null" && got[path] != "null":
			out = append(out, fmt.Sprintf("%s is %s, Stripe's is %s", path, got[path], w))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		below := slices.ContainsFunc(free, func(f string) bool { return strings.HasPrefix(path, f+".") })
		parent := path[:max(strings.LastIndexAny(path, ".["), 0)]
		if _, ok := got[path]; !ok && !below && got[parent] != "null" {
			out = append(out, fmt.Sprintf("%s is missing, Stripe's is %s", path, want[path]))
		}
	}
	return out
}

// errorFields are those that the description has for every error; stripe-mock gives only two of them.
var errorFields = map[string]string{
	".error.code": "string", ".error.doc_url": "string", ".error.param": "string", ".error.request_log_url": "string",
}

// Every shape that the two share.
func TestShapes(t *testing.T) {
	theirs := stripeMock(t)
	const event = "event_name=tokens&identifier=evt_1&payload[stripe_customer_id]=cus_1&payload[value]=25"
	hour := time.Now().Truncate(time.Hour).Unix()
	window := fmt.Sprintf("customer=cus_1&start_time=%d&end_time=%d", hour-3600, hour+7200)
	tests := []struct {
		name   string
		path   string
		form   string // "" is GET, "{}" an empty POST
		noKey  bool
		status int
		free   []string
		more   map[string]string
	}{
		{name: "meter event", path: "/v1/billing/meter_events", form: event, status: 200, free: []string{".payload"}},
		{name: "adjustment", path: "/v1/billing/meter_event_adjustments", form: "event_name=tokens&type=cancel&cancel[identifier]=evt_0", status: 200},
		{name: "meters", path: "/v1/billing/meters", status: 200},
		{name: "active meters", path: "/v1/billing/meters?status=active&limit=1", status: 200},
		{name: "meter", path: "/v1/billing/meters/mtr_123", status: 200},
		{name: "create meter", path: "/v1/billing/meters", form: "display_name=New&event_name=new&default_aggregation[formula]=sum&event_time_window=hour", status: 200},
		{name: "update meter", path: "/v1/billing/meters/mtr_123", form: "display_name=Other", status: 200},
		{name: "deactivate meter", path: "/v1/billing/meters/mtr_123/deactivate", form: "{}", status: 200},
		{name: "reactivate meter", path: "/v1/billing/meters/mtr_off/reactivate", form: "{}", status: 200},
		{name: "summaries", path: "/v1/billing/meters/mtr_123/event_summaries?" + window, status: 200},
		{name: "summaries by hour", path: "/v1/billing/meters/mtr_123/event_summaries?value_grouping_window=hour&" + window, status: 200},

		{name: "no key", path: "/v1/billing/meters", noKey: true, status: 401, more: errorFields},
		{name: "no such path", path: "/v1/billing/metres", status: 404, more: errorFields},
		{name: "event without name", path: "/v1/billing/meter_events", form: "payload[value]=1", status: 400, more: errorFields},
		{name: "event without payload", path: "/v1/billing/meter_events", form: "event_name=tokens", status: 400, more: errorFields},
		{name: "unknown parameter", path: "/v1/billing/meter_events", form: event + "&colour=red", status: 400, more: errorFields},
		{name: "adjustment without type", path: "/v1/billing/meter_event_adjustments", form: "event_name=tokens&cancel[identifier]=evt_0", status: 400, more: errorFields},
		{name: "adjustment of another type", path: "/v1/billing/meter_event_adjustments", form: "event_name=tokens&type=undo&cancel[identifier]=evt_0", status: 400, more: errorFields},
		{name: "meter without formula", path: "/v1/billing/meters", form: "display_name=New&event_name=new", status: 400, more: errorFields},
		{name: "meter of another formula", path: "/v1/billing/meters", form: "display_name=New&event_name=new&default_aggregation[formula]=max", status: 400, more: errorFields},
		{name: "summaries without start", path: "/v1/billing/meters/mtr_123/event_summaries?customer=cus_1&end_time=60", status: 400, more: errorFields},
		{name: "summaries without customer", path: "/v1/billing/meters/mtr_123/event_summaries?start_time=0&end_time=60", status: 400, more: errorFields},
		{name: "summaries by week", path: "/v1/billing/meters/mtr_123/event_summaries?value_grouping_window=week&" + window, status: 400, more: errorFields},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, ours := standIn(t)
			key := "sk_test_weir"
			if tt.noKey {
				key = ""
			} else { // something to summarise, and to cancel
				status, body := ask(t, ours, key, "/v1/billing/meter_events", strings.Replace(event, "evt_1", "evt_0", 1)+"&timestamp="+recent())
				if status != 200 {
					t.Fatalf("%d %v", status, body)
				}
			}
			status, want := ask(t, theirs, key, tt.path, tt.form)
			if status != tt.status {
				t.Fatalf("stripe-mock answers %d %v, want %d", status, want, tt.status)
			}
			status, got := ask(t, ours, key, tt.path, tt.form)
			if status != tt.status {
				t.Fatalf("the stand-in answers %d %v, want %d", status, got, tt.status)
			}
			for _, d := range differences(want, got, tt.free, tt.more) {
				t.Error(d)
			}
			if t.Failed() {
				t.Logf("Stripe's: %v\nours: %v", want, got)
			}
		})
	}
}

// The comparison notices what it is for.
func TestDifferences(t *testing.T) {
	for name, tt := range map[string]struct {
		theirs, ours string
		want         string
	}{
		"the same":        {`{"a":1,"b":[{"c":"x"}]}`, `{"a":2,"b":[{"c":"y"},{}]}`, ""},
		"null":            {`{"a":null,"b":1}`, `{"a":"x","b":null}`, ""},
		"null object":     {`{"a":{"b":1}}`, `{"a":null}`, ""},
		"empty list":      {`{"a":[{"b":1}]}`, `{"a":[]}`, ".a[] is missing"},
		"free":            {`{"a":{"b":1}}`, `{"a":{"c":1}}`, ".a"},
		"type":            {`{"a":1}`, `{"a":"1"}`, ".a is string"},
		"missing":         {`{"a":1,"b":2}`, `{"a":1}`, ".b is missing"},
		"invented":        {`{"a":1}`, `{"a":1,"b":2}`, ".b: Stripe's has none"},
		"invented deeper": {`{"a":{}}`, `{"a":{"b":1}}`, ".a.b: Stripe's has none"},
	} {
		var theirs, ours any
		if json.Unmarshal([]byte(tt.theirs), &theirs) != nil || json.Unmarshal([]byte(tt.ours), &ours) != nil {
			t.Fatal(name)
		}
		var free []string
		if name == "free" {
			free, tt.want = []string{tt.want}, ""
		}
		if got := strings.Join(differences(theirs, ours, free, nil), "\n"); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
