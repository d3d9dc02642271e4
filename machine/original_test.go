package machine

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A correction is judged by where its original stands, and by the first attempt that may have reached the provider.
func TestOriginal(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	id := f.enqueue("original")
	it := f.claimed(id)
	identifier := it.Identifier()

	got, err := f.Original(t.Context(), identifier)
	if err != nil || got.State != Leased || got.Exporter != "stripe" || got.Mode != "test" || got.Account != "" {
		t.Fatalf("leased: got %+v, %v", got, err)
	}
	// The first attempt is answered by nobody; a later one is accepted.
	if _, err := f.Retry(t.Context(), []Postponement{{Ref: it.Ref(), Cause: Cause{Code: "timeout"}}}); err != nil {
		t.Fatal(err)
	}
	f.pass(id, 20*time.Hour)
	it = f.claimed(id)
	if ids, err := f.Accept(t.Context(), []Acceptance{{Ref: it.Ref()}}); err != nil || len(ids) != 1 {
		t.Fatalf("accept: %v, %v", ids, err)
	}
	got, err = f.Original(t.Context(), identifier)
	if err != nil || got.State != Accepted || got.Age < 20*time.Hour || got.Age > 21*time.Hour {
		t.Errorf("accepted: got %+v, %v; want the age of the first attempt, 20 hours", got, err)
	}

	held := f.stage(f.pool, intent{ref: "held", quarantine: "no_customer"})
	var identity []byte
	if err := f.pool.QueryRow(t.Context(), `SELECT identity FROM weir.outbox WHERE id = $1`, held).Scan(&identity); err != nil {
		t.Fatal(err)
	}
	got, err = f.Original(t.Context(), Identifier([32]byte(identity)))
	if err != nil || got.State != Quarantined || got.Age != 0 {
		t.Errorf("quarantined: got %+v, %v; want no age", got, err)
	}
	for _, unknown := range []string{Identifier([32]byte{}), "evt_1", ""} {
		if got, err := f.Original(t.Context(), unknown); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: got %+v, %v; want ErrNotFound", unknown, got, err)
		}
	}
}

func TestParseIdentifier(t *testing.T) {
	identity := [32]byte{1, 2, 0xab}
	identifier := Identifier(identity)
	if got, ok := ParseIdentifier(identifier); !ok || got != identity {
		t.Errorf("%s: got %x, %t", identifier, got, ok)
	}
	for _, other := range []string{"", "weir_", identifier[1:], identifier + "0", strings.ToUpper(identifier), "weir_" + strings.Repeat("g", 64),
		"weir_" + strings.ToUpper(strings.TrimPrefix(identifier, "weir_"))} {
		if got, ok := ParseIdentifier(other); ok {
			t.Errorf("%q: got %x, want none", other, got)
		}
	}
}
