package migrations_test

import (
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
)

// lesson 16: the slot decodes what it takes to wake a lane, and nothing of the tables beside it. No payload is in it.
// lesson 19: it isn't FOR ALL TABLES, which needs a superuser.
func TestPublicationIsNarrow(t *testing.T) {
	db := pgtest.Migrated(t)
	got := one[[]string](t, db, `
		SELECT array_agg(schemaname || '.' || tablename || ' ' || attnames::text) FROM pg_publication_tables WHERE pubname = 'weir'`)
	const want = "weir.deliveries {id,next_attempt_at,lease_expires_at,exporter,state,from_state}"
	if len(got) != 1 || got[0] != want {
		t.Errorf("published: %q, want %q alone", got, want)
	}
	if one[bool](t, db, `SELECT puballtables FROM pg_publication WHERE pubname = 'weir'`) {
		t.Error("the publication is FOR ALL TABLES")
	}
	wide := one[[]string](t, db, `
		SELECT coalesce(array_agg(attname), '{}') FROM pg_attribute
		 WHERE attrelid = 'weir.deliveries'::regclass AND attname = ANY ('{payload,traceparent}')`)
	if len(wide) != 0 {
		t.Errorf("weir.deliveries has %q: what is rewritten with every transition must be narrow", wide)
	}
}
