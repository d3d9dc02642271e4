package outbox

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/pgtest"
)

// usage is a valid item.
func usage(ref string) Item {
	return Item{
		TenantKey:      "t_1",
		SubjectRef:     ref,
		Mode:           "test",
		MappingVersion: "1",
		Payload:        map[string]string{"customer": "cus_1", "meter": "api_requests", "value": "12.5"},
	}
}

func with(change func(*Item)) Item {
	it := usage("usage:1")
	change(&it)
	return it
}

// lesson "numeric and time": NaN among them.
func TestValidateRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		item  Item
		field string
	}{
		"no tenant":           {with(func(it *Item) { it.TenantKey = "" }), "tenant_key"},
		"long tenant":         {with(func(it *Item) { it.TenantKey = strings.Repeat("é", 256) }), "tenant_key"},
		"tenant not UTF-8":    {with(func(it *Item) { it.TenantKey = "t\xff" }), "tenant_key"},
		"separator":           {with(func(it *Item) { it.TenantKey = "a\x1fb" }), "tenant_key"},
		"long kind":           {with(func(it *Item) { it.SubjectKind = strings.Repeat("k", 64) }), "subject_kind"},
		"no ref":              {with(func(it *Item) { it.SubjectRef = "" }), "subject_ref"},
		"NUL":                 {with(func(it *Item) { it.SubjectRef = "a\x00" }), "subject_ref"},
		"long ref":            {with(func(it *Item) { it.SubjectRef = strings.Repeat("r", 1025) }), "subject_ref"},
		"exporter":            {with(func(it *Item) { it.Exporter = "Stripe" }), "exporter"},
		"exporter, digit":     {with(func(it *Item) { it.Exporter = "2stripe" }), "exporter"},
		"exporter, newline":   {with(func(it *Item) { it.Exporter = "stripe\n" }), "exporter"},
		"long exporter":       {with(func(it *Item) { it.Exporter = strings.Repeat("e", 64) }), "exporter"},
		"long account":        {with(func(it *Item) { it.DestinationAccount = strings.Repeat("a", 256) }), "destination_account"},
		"no mode":             {with(func(it *Item) { it.Mode = "" }), "mode"},
		"mode":                {with(func(it *Item) { it.Mode = "production" }), "mode"},
		"no mapping":          {with(func(it *Item) { it.MappingVersion = "" }), "mapping_version"},
		"long mapping":        {with(func(it *Item) { it.MappingVersion = strings.Repeat("m", 64) }), "mapping_version"},
		"long order key":      {with(func(it *Item) { it.OrderKey = strings.Repeat("o", 256) }), "order_key"},
		"long source":         {with(func(it *Item) { it.Source = strings.Repeat("s", 256) }), "source"},
		"quarantine reason":   {with(func(it *Item) { it.QuarantineReason = "not known" }), "quarantine_reason"},
		"long reason":         {with(func(it *Item) { it.QuarantineReason = strings.Repeat("q", 64) }), "quarantine_reason"},
		"no payload":          {with(func(it *Item) { it.Payload = nil }), "payload"},
		"payload no object":   {with(func(it *Item) { it.Payload = []int{1} }), "payload"},
		"payload NaN":         {with(func(it *Item) { it.Payload = map[string]float64{"value": math.NaN()} }), "payload"},
		"payload broken":      {with(func(it *Item) { it.Payload = json.RawMessage(`{"a":`) }), "payload"},
		"payload empty":       {with(func(it *Item) { it.Payload = json.RawMessage{} }), "payload"},
		"payload not UTF-8":   {with(func(it *Item) { it.Payload = json.RawMessage("{\"a\":\"\xff\"}") }), "payload"},
		"payload NUL":         {with(func(it *Item) { it.Payload = json.RawMessage(`{"a":"\u0000"}`) }), "payload"},
		"payload NUL from Go": {with(func(it *Item) { it.Payload = map[string]string{"a": "\x00"} }), "payload"},
		"payload high half":   {with(func(it *Item) { it.Payload = json.RawMessage(`{"a":"\ud83d"}`) }), "payload"},
		"payload two highs":   {with(func(it *Item) { it.Payload = json.RawMessage(`{"a":"\ud83d\ud83d"}`) }), "payload"},
		"payload low half":    {with(func(it *Item) { it.Payload = json.RawMessage(`{"a":"\uDE00"}`) }), "payload"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.item.Validate()
			var field *FieldError
			if !errors.As(err, &field) || field.Field != tt.field {
				t.Fatalf("want a *FieldError about %s, got %v", tt.field, err)
			}
			if !strings.HasPrefix(err.Error(), tt.field+" ") {
				t.Errorf("the error must name the field: %s", err)
			}
		})
	}
}

// What Validate lets through, Postgres must take: a refusal there costs the producer its transaction.
func TestValidateAgreesWithPostgres(t *testing.T) {
	long := func(n int) string { return strings.Repeat("é", n) }
	items := []Item{
		usage("plain"),
		with(func(it *Item) { it.TenantKey, it.SubjectKind, it.SubjectRef = long(255), long(63), long(1024) }),
		with(func(it *Item) { it.DestinationAccount, it.MappingVersion = long(255), long(63) }),
		with(func(it *Item) { it.Exporter = "a" + strings.Repeat("_", 62) }),
		with(func(it *Item) { it.OrderKey, it.Source, it.Traceparent = long(255), long(255), long(255) }),
		with(func(it *Item) { it.QuarantineReason = strings.Repeat("q", 63) }),
		with(func(it *Item) { it.SubjectRef, it.Mode = "\\ \x1e \n 😀", "live" }),
		with(func(it *Item) {
			it.SubjectRef, it.Payload = "escapes", json.RawMessage(`{"a":"\ud83d\uDE00 \\u0000 \u0001 \" \\","b":null}`)
		}),
		with(func(it *Item) { it.SubjectRef, it.Payload = "<&>", struct{ A string }{"<&>\u2028"} }),
		with(func(it *Item) { it.SubjectRef, it.Payload = "empty", json.RawMessage(`  {}  `) }),
	}
	for _, it := range items {
		if err := it.Validate(); err != nil {
			t.Errorf("%.20s: %v", it.SubjectRef, err)
		}
	}
	tx := begin(t, pgtest.Migrated(t))
	if _, err := Enqueue(t.Context(), tx, items...); err != nil {
		t.Error(err)
	}
}

func TestItemJSON(t *testing.T) {
	in := `{"tenant_key":"t_1","subject_ref":"usage:1","mode":"test","mapping_version":"1","payload":{"value":12.50000000000000000001}}`
	var it Item
	if err := json.Unmarshal([]byte(in), &it); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(it)
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != in {
		t.Errorf("want every digit back:\n%s\n%s", in, out)
	}

	err = json.Unmarshal([]byte(`{"tenant_key":"t_1","subjekt_ref":"usage:1"}`), &it)
	if err == nil || !strings.Contains(err.Error(), "subjekt_ref") {
		t.Errorf("want an error that names the unknown key, got %v", err)
	}
	var none Item
	if err := json.Unmarshal([]byte(`{"tenant_key":"t_1"}`), &none); err != nil || none.Payload != nil {
		t.Errorf("want no payload, got %v, %v", none.Payload, err)
	}
}

// Enqueue's types let only a transaction in.
func TestOnlyTransactions(t *testing.T) {
	tx := reflect.TypeFor[pgx.Tx]()
	for _, not := range []reflect.Type{reflect.TypeFor[*pgxpool.Pool](), reflect.TypeFor[*pgxpool.Conn](), reflect.TypeFor[*pgx.Conn]()} {
		if not.Implements(tx) {
			t.Errorf("%v satisfies pgx.Tx: an item could be enqueued outside of the producer's transaction", not)
		}
	}
	if !reflect.TypeFor[*pgxpool.Tx]().Implements(tx) {
		t.Error("*pgxpool.Tx doesn't satisfy pgx.Tx")
	}
}

func FuzzPayload(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":"\u0000"}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud83d"}`, `{"a":"\\u0000"}`, `{"\ud83d\`, `{"a":"\\"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		it := usage("usage:1")
		it.Payload = json.RawMessage(payload)
		if err := it.Validate(); err == nil && !json.Valid(payload) {
			t.Errorf("%q is no JSON", payload)
		}
	})
}
