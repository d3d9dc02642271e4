package machine

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
)

// sameIDs compares without regard to order.
func sameIDs(a, b []int64) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// The identifier is the same in Go, in the view for people and from the function for producers, and all
// seven columns take part.
func TestIdentifierIsSQLs(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	base := [7]string{"tenant", "usage", "ref", "stripe", "acct_1", "test", "1"}
	rows := [][7]string{base}
	for i, other := range [7]string{`ten\ant`, "correction", "réf ✓", "webhook", "", "live", "2"} {
		changed := base
		changed[i] = other
		rows = append(rows, changed)
	}
	seen := map[string]bool{}
	for _, row := range rows {
		var id int64
		err := f.pool.QueryRow(t.Context(), `
INSERT INTO weir.outbox (tenant_key, subject_kind, subject_ref, exporter, destination_account, mode, mapping_version, payload)
VALUES ($1, $2, $3, $4, $5, $6, $7, '{}') RETURNING id`,
			row[0], row[1], row[2], row[3], row[4], row[5], row[6]).Scan(&id)
		if err != nil {
			t.Fatalf("insert %q: %v", row, err)
		}
		var view string
		if err := f.pool.QueryRow(t.Context(), `SELECT identifier FROM weir.items WHERE id = $1`, id).Scan(&view); err != nil {
			t.Fatal(err)
		}
		items, err := f.Claim(t.Context(), Claimer{Exporter: row[3], Owner: "w"}, []int64{id})
		if err != nil || len(items) != 1 {
			t.Fatalf("claim: %v, %v", items, err)
		}
		it := items[0]
		want := Identifier(sha256.Sum256([]byte(strings.Join(row[:], "\x1f"))))
		if it.Identifier() != want || view != want || len(want) != 69 {
			t.Errorf("%q: want %s, got %s of the item and %s of the view", row, want, it.Identifier(), view)
		}
		got := [7]string{it.TenantKey, it.SubjectKind, it.SubjectRef, it.Exporter, it.Account, it.Mode, it.MappingVersion}
		if got != row {
			t.Errorf("want item %q, got %q", row, got)
		}
		if seen[want] {
			t.Errorf("%q: the identifier is another's", row)
		}
		seen[want] = true
	}
}
