package examples

import (
	"bufio"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/outbox"
)

type payload struct {
	Customer  string
	Meter     string
	Value     string
	Timestamp time.Time
	Feature   string
}

type record struct {
	outbox.Item
	payload
}

// read reads the records as they are at now.
func read(t *testing.T, now time.Time) []record {
	t.Helper()
	r, err := Usage(now)
	if err != nil {
		t.Fatal(err)
	}
	var records []record
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var rec record
		if err := json.Unmarshal(lines.Bytes(), &rec.Item); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if err := json.Unmarshal(rec.Item.Payload.(json.RawMessage), &rec.payload); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		records = append(records, rec)
	}
	return records
}

func TestRecords(t *testing.T) {
	now := time.Date(2031, time.March, 1, 12, 34, 56, 789, time.FixedZone("", 3600))
	records := read(t, now)

	customer := regexp.MustCompile(`^cus_[A-Za-z0-9]{14}$`)
	value := regexp.MustCompile(`^-?(0|[1-9][0-9]{0,9})(\.[0-9]{0,2}[1-9])?$`)
	identifiers, customers, tenants, meters := map[string]bool{}, map[string]string{}, map[string]string{}, map[string]int{}
	var decimals, corrections int
	var held, unknown []string
	for _, r := range records {
		if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", r.SubjectRef, err)
		}
		if !customer.MatchString(r.Customer) || !value.MatchString(r.Value) || r.Feature == "" || r.Mode != "test" {
			t.Errorf("%s: odd record %+v", r.SubjectRef, r)
		}
		if r.Timestamp.Before(now.AddDate(0, 0, -30)) || r.Timestamp.After(now) {
			t.Errorf("%s: %v is not in the days before %v", r.SubjectRef, r.Timestamp, now)
		}
		identifiers[outbox.Identifier(r.Item)] = true
		if seen := customers[r.Customer]; seen != "" && seen != r.TenantKey {
			t.Errorf("customer %s belongs to %s and %s", r.Customer, seen, r.TenantKey)
		}
		customers[r.Customer], tenants[r.TenantKey] = r.TenantKey, r.Customer
		meters[r.Meter]++
		if strings.Contains(r.Value, ".") {
			decimals++
		}
		if negative := r.Value[0] == '-'; negative != (r.SubjectKind == "correction") {
			t.Errorf("%s: only corrections are negative, got %s", r.SubjectRef, r.Value)
		} else if negative {
			corrections++
		}
		if r.QuarantineReason != "" {
			held = append(held, r.QuarantineReason)
		}
		if !slices.Contains(Meters(), r.Meter) {
			unknown = append(unknown, r.Meter)
		}
	}
	if len(records) != 6000 || len(identifiers) != 6000 {
		t.Errorf("want 6000 records with an identifier each, got %d with %d", len(records), len(identifiers))
	}
	if len(customers) != 50 || len(tenants) != 50 {
		t.Errorf("want 50 customers and tenants, got %d and %d", len(customers), len(tenants))
	}
	for _, m := range Meters() {
		if meters[m] < 500 {
			t.Errorf("want many records of %s, got %d", m, meters[m])
		}
	}
	if decimals < 500 || corrections < 3 {
		t.Errorf("want some decimals and corrections, got %d and %d", decimals, corrections)
	}
	if !slices.Equal(held, []string{"attribution_unresolved"}) {
		t.Errorf("want one item that is held back, got %v", held)
	}
	if !slices.Equal(unknown, []string{"gpu_seconds"}) {
		t.Errorf("want one record of an unknown meter, got %v", unknown)
	}
}

// A correction takes back a record that came before it.
func TestCorrections(t *testing.T) {
	sent := map[string]record{}
	for _, r := range read(t, time.Now()) {
		sent[r.SubjectRef] = r
		if r.SubjectKind != "correction" {
			continue
		}
		of, found := sent[strings.TrimSuffix(r.SubjectRef, ":1")]
		if !found || of.Customer != r.Customer || of.Meter != r.Meter || "-"+of.Value != r.Value {
			t.Errorf("%s takes back %+v", r.SubjectRef, of)
		}
	}
}

func TestUsageMovesTime(t *testing.T) {
	a, b := time.Now(), time.Now().AddDate(1, 0, 0)
	early, late := read(t, a), read(t, b)
	for i := range early {
		if i > 0 && early[i].Timestamp.Before(early[i-1].Timestamp) {
			t.Fatalf("record %d is before its predecessor", i)
		}
		want := early[i].Timestamp.Sub(early[0].Timestamp)
		if got := late[i].Timestamp.Sub(late[0].Timestamp); got != want {
			t.Fatalf("record %d: want it %v after the first, got %v", i, want, got)
		}
	}
	for now, records := range map[time.Time][]record{a: early, b: late} {
		if ago := now.Sub(records[len(records)-1].Timestamp); ago < before || ago > before+time.Second {
			t.Errorf("want the last record %v before now, got %v", before, ago)
		}
	}
}

func TestSize(t *testing.T) {
	if len(usage) > 3<<20 {
		t.Errorf("usage.ndjson has %d bytes: too many to check in", len(usage))
	}
}
