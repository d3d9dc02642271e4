package outbox

import (
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
)

// lesson 25
func TestIdentifierIsWhatPostgresComputes(t *testing.T) {
	db := pgtest.Migrated(t)
	items := []Item{
		usage("plain"),
		with(func(it *Item) { it.SubjectRef = `back\slash \x41 \101 \\ \n` }),
		with(func(it *Item) { it.TenantKey = "Zoë 😀 ﷽ e\u0301" }),
		with(func(it *Item) { it.DestinationAccount = "acct_1" }),
		with(func(it *Item) {
			it.SubjectKind, it.Exporter, it.Mode, it.MappingVersion = "correction", "webhook", "live", "v2"
		}),
		with(func(it *Item) { it.SubjectRef = "\x01 \x1e ' \" \r\n\t" }),
	}
	tx := begin(t, db)
	for i, r := range mustEnqueue(t, tx, items...) {
		var want string
		if err := tx.QueryRow(t.Context(), `SELECT 'weir_' || encode(identity, 'hex') FROM weir.outbox WHERE id = $1`, r.ID).Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got := Identifier(items[i]); got != want || r.Identifier != want || len(got) != 69 {
			t.Errorf("%q: want %s, got %s and the receipt's %s", items[i].SubjectRef, want, got, r.Identifier)
		}
	}
}

func TestIdentifierOfDefaults(t *testing.T) {
	spelled := with(func(it *Item) { it.SubjectKind, it.Exporter = "usage", "stripe" })
	if Identifier(usage("usage:1")) != Identifier(spelled) {
		t.Error("a default and its spelled value are one identity")
	}
	rest := with(func(it *Item) {
		it.Payload, it.OrderKey, it.Source, it.Traceparent, it.QuarantineReason = nil, "o", "s", "t", "q"
	})
	if Identifier(usage("usage:1")) != Identifier(rest) {
		t.Error("nothing but the seven takes part in the identity")
	}
}
