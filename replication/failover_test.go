package replication

import (
	"net/url"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/internal/postgres"
	"github.com/weir-relay/weir/migrations"
)

// lesson 13: the standby that is promoted has no slot. Weir finds the new primary among its hosts, makes a
// slot there and counts anew; what only the old primary had is not counted.
func TestFailover(t *testing.T) {
	primary := pgtest.Cluster(t, postgres.Options{})
	if err := migrations.Up(t.Context(), primary.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	standby, err := primary.Standby(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop() })
	hosts := bothHosts(t, standby.URL("postgres"), primary.URL("postgres"))
	pool, err := pgxpool.New(t.Context(), hosts+"&target_session_attrs=read-write")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)

	r := newRig(t, hosts, pool, "weir")
	r.ledger.url = hosts + "&target_session_attrs=read-write"
	r.config.URL = hosts
	r.start().streaming()
	r.insert("stripe", "a", 2)
	r.countedOn(r.ledger.url)
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool.Reset()
	r.streaming()
	r.insert("stripe", "b", 1)
	r.countedOn(r.ledger.url)
	if n := r.stream.Status().Recreations[ReasonTimeline]; n != 1 {
		t.Errorf("recreations %v, want one for %s", r.stream.Status().Recreations, ReasonTimeline)
	}
	if got := r.log.copy(); !slices.Contains(got, "stopped") {
		t.Errorf("transcript %q: it never stopped", got)
	}
	r.stop()
}

func bothHosts(t *testing.T, a, b string) string {
	t.Helper()
	first, err := url.Parse(a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	first.Host += "," + second.Host
	return first.String()
}

// lesson 13: a slot is synchronised only where it was made with the option, which servers before 17 refuse.
func TestSlotIsMadeForFailover(t *testing.T) {
	for _, tt := range []struct {
		version    int
		noFailover bool
		want       string
	}{
		{150014, false, "CREATE_REPLICATION_SLOT weir LOGICAL pgoutput (SNAPSHOT 'export')"},
		{160009, false, "CREATE_REPLICATION_SLOT weir LOGICAL pgoutput (SNAPSHOT 'export')"},
		{170000, false, "CREATE_REPLICATION_SLOT weir LOGICAL pgoutput (SNAPSHOT 'export', FAILOVER true)"},
		{180001, false, "CREATE_REPLICATION_SLOT weir LOGICAL pgoutput (SNAPSHOT 'export', FAILOVER true)"},
		{170000, true, "CREATE_REPLICATION_SLOT weir LOGICAL pgoutput (SNAPSHOT 'export')"},
	} {
		c := &connection{version: tt.version, config: Config{NoFailover: tt.noFailover}}
		if got := c.createCommand("weir"); got != tt.want {
			t.Errorf("version %d, no failover %v: %s, want %s", tt.version, tt.noFailover, got, tt.want)
		}
	}
}
