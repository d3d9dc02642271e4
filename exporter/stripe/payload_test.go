package stripe

import (
	"encoding/json"
	"maps"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-relay/weir/machine"
)

// readPayload reads a payload as that of an item in test mode.
func readPayload(payload json.RawMessage) (*event, *problem) {
	e := &Exporter{mode: Test}
	return e.read(&machine.Item{Mode: "test", SubjectKind: "usage", Payload: payload})
}

func TestParse(t *testing.T) {
	got, p := readPayload(json.RawMessage(`{
		"customer": "cus_1", "meter": "tokens", "value": "12.50", "timestamp": "2026-03-01T12:00:00.9+02:00",
		"dimensions": {"model": "large"}, "feature": "chat", "period": {"start": 1}}`))
	if p != nil {
		t.Fatal(p)
	}
	want := event{customer: "cus_1", meter: "tokens", value: "12.5", timestamp: 1772359200, dimensions: map[string]string{"model": "large"}}
	if got.customer != want.customer || got.meter != want.meter || got.value != want.value || got.timestamp != want.timestamp ||
		!maps.Equal(got.dimensions, want.dimensions) {
		t.Errorf("event %+v, want %+v", got, want)
	}
}

// lesson "numeric and time": no NaN, no infinity, no exponent that grows.
func TestParseRefuses(t *testing.T) {
	// Each case replaces one field of a good payload; an empty text removes it.
	good := map[string]string{"customer": `"cus_1"`, "meter": `"tokens"`, "value": `1`, "timestamp": `1772366400`, "dimensions": `{}`}
	hundred := strings.Repeat("x", 101)
	tests := []struct{ field, text, code string }{
		{"customer", ``, "no_customer"},
		{"customer", `null`, "no_customer"},
		{"customer", `""`, "no_customer"},
		{"customer", `7`, "customer_invalid"},
		{"customer", `" cus_1"`, "customer_invalid"},
		{"customer", `"cus\u0000"`, "customer_invalid"},
		{"customer", `"` + hundred + `"`, "customer_invalid"},
		{"meter", ``, "no_meter"},
		{"meter", `["tokens"]`, "meter_invalid"},
		{"meter", `"` + hundred + `"`, "meter_invalid"},
		{"value", ``, "no_value"},
		{"value", `null`, "no_value"},
		{"value", `""`, "invalid_value"},
		{"value", `true`, "invalid_value"},
		{"value", `"1,5"`, "invalid_value"},
		{"value", `" 1"`, "invalid_value"},
		{"value", `"+1"`, "invalid_value"},
		{"value", `"0x10"`, "invalid_value"},
		{"value", `"NaN"`, "invalid_value"},
		{"value", `"Infinity"`, "invalid_value"},
		{"value", `1234567890123456`, "invalid_value"},
		{"value", `12345678.12345678`, "invalid_value"},
		{"value", `0.1234567890123`, "invalid_value"},
		{"value", `1e15`, "invalid_value"},
		{"value", `1e999999999`, "invalid_value"},
		{"value", `1e-999999999`, "invalid_value"},
		{"value", `1e99999999999999999999`, "invalid_value"},
		{"value", `1` + strings.Repeat("0", 10000), "invalid_value"},
		{"timestamp", ``, "no_timestamp"}, // the arrival must never stand in for it
		{"timestamp", `"2026-03-01"`, "timestamp_invalid"},
		{"timestamp", `"2026-03-01T12:00:00"`, "timestamp_invalid"},
		{"timestamp", `"1772366400"`, "timestamp_invalid"},
		{"timestamp", `1772366400.5`, "timestamp_invalid"},
		{"timestamp", `1772366400000`, "timestamp_invalid"},
		{"timestamp", `-1`, "timestamp_invalid"},
		{"timestamp", `9223372036854775807`, "timestamp_invalid"},
		{"timestamp", `true`, "timestamp_invalid"},
		{"dimensions", `[]`, "dimensions_invalid"},
		{"dimensions", `{"a":1}`, "dimensions_invalid"},
		{"dimensions", `{"a":null}`, "dimensions_invalid"},
		{"dimensions", `{"a":""}`, "dimensions_invalid"},
		{"dimensions", `{"":"a"}`, "dimensions_invalid"},
		{"dimensions", `{"a][value":"9"}`, "dimensions_invalid"},
		{"dimensions", `{"a":"` + hundred + `"}`, "dimensions_invalid"},
	}
	for _, tt := range tests {
		fields := maps.Clone(good)
		fields[tt.field] = tt.text
		if tt.text == "" {
			delete(fields, tt.field)
		}
		raw := map[string]json.RawMessage{}
		for k, v := range fields {
			raw[k] = json.RawMessage(v)
		}
		payload, err := json.Marshal(raw)
		if err != nil {
			t.Fatalf("%s %s: %v", tt.field, tt.text, err)
		}
		if _, p := readPayload(payload); p == nil || p.code != tt.code || p.detail == "" {
			t.Errorf("%s = %.40s: problem %v, want %s", tt.field, tt.text, p, tt.code)
		}
	}
	for _, payload := range []string{``, `null`, `[]`, `"x"`, `7`, `{`, `{} {}`} {
		if _, p := readPayload(json.RawMessage(payload)); p == nil || p.code != "payload_invalid" {
			t.Errorf("payload %q: problem %v, want payload_invalid", payload, p)
		}
	}
	if _, p := readPayload(json.RawMessage(`{"Customer":"cus_1","meter":"m","value":1,"timestamp":1}`)); p == nil || p.code != "no_customer" {
		t.Errorf("field names in another case: problem %v, want no_customer", p)
	}
}

// lesson "numeric and time": every digit goes out as it came in.
func TestValues(t *testing.T) {
	for in, want := range map[string]string{
		`0`: "0", `-0`: "0", `0e999`: "0", `"0.000"`: "0", `25`: "25", `"25"`: "25", `-3`: "-3", `"-2.50"`: "-2.5", `1e3`: "1000",
		`1.5E+2`: "150", `1e-12`: "0.000000000001", `999999999999999`: "999999999999999", `-999999999999999`: "-999999999999999",
		`1e14`: "100000000000000", `123.123456789012`: "123.123456789012", `0.1`: "0.1", `100.00`: "100", `907199254740.993`: "907199254740.993",
	} {
		if got, p := parseValue(json.RawMessage(in)); p != nil || got != want {
			t.Errorf("value %s is sent as %q (%v), want %q", in, got, p, want)
		}
	}
}

var plainDecimal = regexp.MustCompile(`^(0|-?(0\.[0-9]*[1-9]|[1-9][0-9]*(\.[0-9]*[1-9])?))$`)

// No payload makes parse panic, and every value that it takes is sent exactly.
func FuzzParse(f *testing.F) {
	for _, value := range []string{`1`, `"1.50"`, `1e14`, `-0.000000000001`, `1e999999999`, `"x"`, `null`} {
		f.Add([]byte(`{"customer":"cus_1","meter":"tokens","value":` + value + `,"timestamp":1772366400,"dimensions":{"a":"b"}}`))
	}
	f.Add([]byte(`{"customer":"cus_1","meter":"tokens","value":1,"timestamp":"2026-03-01T12:00:00Z"}`))
	f.Add([]byte(`{"meter":"tokens","cancel":"evt","received_at":1772366400,"original_state":"billed"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		cancels := &Exporter{mode: Test}
		if e, p := cancels.read(&machine.Item{Mode: "test", SubjectKind: adjustment, Payload: payload}); (e == nil) == (p == nil) || e != nil && e.cancel == nil {
			t.Fatalf("cancellation %v, problem %v", e, p)
		}
		e, p := readPayload(payload)
		if (e == nil) == (p == nil) {
			t.Fatalf("event %v, problem %v: need one of them", e, p)
		}
		if p != nil {
			if p.code != slug(p.code) || p.code == "" {
				t.Fatalf("code %q can't be a quarantine reason", p.code)
			}
			return
		}
		if !plainDecimal.MatchString(e.value) {
			t.Fatalf("value %q is not a plain decimal", e.value)
		}
		var fields map[string]json.RawMessage
		var literal json.Number
		if err := json.Unmarshal(payload, &fields); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(fields["value"], &literal); err != nil {
			t.Fatal(err)
		}
		if mantissa, _, _ := strings.Cut(strings.ToLower(string(literal)), "e"); strings.Trim(mantissa, "-0.") == "" {
			literal = "0" // math/big would spell out the exponent
		}
		read, ok := new(big.Rat).SetString(string(literal))
		sent, _ := new(big.Rat).SetString(e.value)
		if !ok || read.Cmp(sent) != 0 {
			t.Fatalf("value %s is sent as %s", literal, e.value)
		}
		if !short(e.customer) || !short(e.meter) {
			t.Fatalf("customer %q or meter %q can't be sent", e.customer, e.meter)
		}
	})
}
