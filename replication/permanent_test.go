package replication

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

// lessons 18, 19, 20: what a person has to mend ends Run, with a hint.
// lesson 7: and a publication that leaves out what is needed is found at the start.
func TestPermanentErrors(t *testing.T) {
	tests := []struct {
		name string
		set  func(*rig)
		hint string
	}{
		{"publication missing", func(r *rig) { r.exec(`DROP PUBLICATION weir`) }, "weir migrate up"},
		{"publication without a column", func(r *rig) {
			r.exec(`ALTER PUBLICATION weir SET TABLE weir.deliveries (id, exporter, state, next_attempt_at, lease_expires_at)`)
		}, "ALTER PUBLICATION"},
		{"publication of another table", func(r *rig) { r.exec(`ALTER PUBLICATION weir SET TABLE weir.outbox`) }, "ALTER PUBLICATION"},
		{"publication without deletes", func(r *rig) { r.exec(`ALTER PUBLICATION weir SET (publish = 'insert, update')`) }, "ALTER PUBLICATION"},
		{"publication with a filter", func(r *rig) {
			r.exec(`ALTER PUBLICATION weir SET TABLE weir.deliveries (id, exporter, state, from_state, next_attempt_at, lease_expires_at) WHERE (id > 7)`)
		}, "ALTER PUBLICATION"},
		{"slot of another plugin", func(r *rig) {
			r.exec(`SELECT pg_create_physical_replication_slot($1)`, r.config.Slot)
			r.atEnd(`SELECT pg_drop_replication_slot($1)`, r.config.Slot)
		}, "another slot name"},
		{"wrong password", func(r *rig) { r.config.URL = withUser(r.config.URL, "nobody", "x") }, "user and password"},
		{"no such database", func(r *rig) { r.config.URL = strings.Replace(r.config.URL, "?", "_not?", 1) }, "correct the database"},
		{"no privilege", func(r *rig) {
			name := r.config.Slot + "_role"
			r.exec(`CREATE ROLE "` + name + `" LOGIN PASSWORD 'x'`)
			r.atEnd(`DROP ROLE "` + name + `"`)
			r.config.URL = withUser(r.config.URL, name, "x")
		}, "REPLICATION"},
		{"bad URL", func(r *rig) { r.config.URL = "postgres://%zz" }, "correct it"},
		{"bad configuration", func(r *rig) { r.config.Slot = "Weir-1" }, "configuration"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := setUp(t)
			test.set(r)
			r.start()
			demandPermanent(t, r.result(), test.hint)
			if s := r.stream.Status(); test.name != "bad configuration" && (s.Mode != Sweeping || s.Reason == "") {
				t.Errorf("mode %s, reason %q: want sweeping, with a reason", s.Mode, s.Reason)
			}
			if got := r.log.copy(); len(got) != 0 {
				t.Errorf("the handler was told %q", got)
			}
		})
	}
}

func TestWALLevelTooLow(t *testing.T) {
	r, _ := setUpCluster(t, map[string]string{"wal_level": "replica"})
	r.start()
	demandPermanent(t, r.result(), "wal_level = logical")
}

func TestRunAgainAfterAPermanentError(t *testing.T) {
	r := setUp(t)
	r.exec(`ALTER PUBLICATION weir SET (publish = 'insert')`)
	r.start()
	demandPermanent(t, r.result(), "ALTER PUBLICATION")
	r.exec(`ALTER PUBLICATION weir SET (publish = 'insert, update, delete, truncate')`)
	go func() { r.done <- r.stream.Run(r.t.Context()) }()
	r.streaming().counted()
}

func demandPermanent(t *testing.T, err error, hint string) {
	t.Helper()
	var p *PermanentError
	if !errors.As(err, &p) {
		t.Fatalf("Run: %v, want a *PermanentError", err)
	}
	if !strings.Contains(p.Hint, hint) {
		t.Errorf("hint %q does not say %q; error: %v", p.Hint, hint, p)
	}
}

func withUser(raw, user, password string) string {
	u, _ := url.Parse(raw)
	u.User = url.UserPassword(user, password)
	return u.String()
}
