package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/migrations"
)

// diagnose runs weir doctor and answers its findings by check, the worst of each.
func diagnose(c *cli, code int, args ...string) map[string]finding {
	c.t.Helper()
	var found []finding
	c.run(append([]string{"doctor", "--json"}, args...)...).wants(code).json(&found)
	rank := map[level]int{levelOK: 0, levelNote: 1, levelWarn: 2, levelFail: 3}
	worst := map[string]finding{}
	for _, f := range found {
		if known, ok := worst[f.Check]; !ok || rank[f.Level] > rank[known.Level] {
			worst[f.Check] = f
		}
	}
	return worst
}

// expect checks a finding's level, that it says text, and that there is a fix where something is wrong.
func expect(t *testing.T, found map[string]finding, check string, l level, text string) {
	t.Helper()
	f, ok := found[check]
	if !ok || f.Level != l || !strings.Contains(f.What, text) {
		t.Errorf("%s: got %+v, want %s with %q", check, f, l, text)
	}
	if f.Level == levelFail && f.Fix == "" {
		t.Errorf("%s: fails without saying what to do: %s", check, f.What)
	}
}

func TestDoctor(t *testing.T) {
	c, _ := onDatabase(t)
	stripe := httptest.NewServer(sandbox.New(sandbox.Config{Meters: []sandbox.Meter{{EventName: "m"}}}).Handler())
	defer stripe.Close()
	c.env = append(c.env, "WEIR_STRIPE_URL="+stripe.URL, "WEIR_STRIPE_KEY=sk_test_weir")
	found := diagnose(c, exitOK)
	expect(t, found, "server", levelOK, "Postgres")
	expect(t, found, "clock", levelOK, "agree")
	expect(t, found, "schema", levelOK, fmt.Sprintf("version %d", migrations.Latest()))
	expect(t, found, "privileges", levelOK, "may do everything")
	expect(t, found, "autovacuum", levelOK, "keeps up")
	expect(t, found, "wal_level", levelOK, "logical")
	expect(t, found, "publication", levelOK, "publishes weir.deliveries")
	expect(t, found, "slot", levelNote, "the relay makes it")
	expect(t, found, "replication", levelOK, "connects")
	expect(t, found, "lane stripe", levelOK, "mode test")
	c.run("doctor").wants(exitOK, "ok    server: Postgres")

	c.run("slot", "create").wants(exitOK)
	expect(t, diagnose(c, exitOK), "slot", levelWarn, "nothing reads") // lesson 12
	c.run("slot", "drop", "--yes").wants(exitOK)

	c.env = append(c.env, "WEIR_REPLICATION_ENABLED=false")
	expect(t, diagnose(c, exitOK), "replication", levelNote, "is off")
}

func TestDoctorFindsStripeTrouble(t *testing.T) {
	c, _ := onDatabase(t)
	expect(t, diagnose(c, exitFindings), "lane stripe", levelFail, "no Stripe key")
	stripe := httptest.NewServer(sandbox.New(sandbox.Config{}).Handler())
	c.env = append(c.env, "WEIR_STRIPE_URL="+stripe.URL, "WEIR_STRIPE_KEY=sk_test_weir")
	expect(t, diagnose(c, exitFindings), "lane stripe", levelFail, "no meters")
	c.env[len(c.env)-1] = "WEIR_STRIPE_KEY=sk_test_other"
	expect(t, diagnose(c, exitFindings), "lane stripe", levelFail, "401")
	stripe.Close()
	expect(t, diagnose(c, exitFindings), "lane stripe", levelFail, "couldn't be asked")
	diagnose(c, exitOK, "--no-stripe")
}

func TestDoctorFindsDatabaseTrouble(t *testing.T) {
	t.Run("unreachable", func(t *testing.T) {
		c := newCLI(t, "WEIR_DATABASE_URL=postgres://127.0.0.1:1/d")
		expect(t, diagnose(c, exitFindings, "--no-stripe"), "database", levelFail, "connect to")
	})
	t.Run("no schema", func(t *testing.T) {
		c := newCLI(t, "WEIR_DATABASE_URL="+pgtest.New(t).URL())
		found := diagnose(c, exitFindings, "--no-stripe")
		expect(t, found, "schema", levelFail, "isn't there")
		expect(t, found, "publication", levelFail, "doesn't publish")
	})
	t.Run("publication", func(t *testing.T) {
		c, db := onDatabase(t)
		db.Exec(t, `ALTER PUBLICATION weir SET TABLE weir.deliveries (id, exporter, state)`)
		expect(t, diagnose(c, exitFindings, "--no-stripe"), "publication", levelFail, "doesn't publish")
	})
	t.Run("autovacuum", func(t *testing.T) {
		c, db := onDatabase(t)
		db.Exec(t, `ALTER TABLE weir.deliveries SET (autovacuum_enabled = off)`)
		expect(t, diagnose(c, exitFindings, "--no-stripe"), "autovacuum", levelFail, "is off for weir.deliveries")
	})
	t.Run("synchronous_commit", func(t *testing.T) {
		c, db := onDatabase(t)
		db.Exec(t, `ALTER DATABASE `+db.Name()+` SET synchronous_commit = off`)
		expect(t, diagnose(c, exitOK, "--no-stripe"), "synchronous_commit", levelWarn, "is off")
	})
	t.Run("two databases", func(t *testing.T) {
		c, db := onDatabase(t)
		other, err := url.Parse(db.URL())
		if err != nil {
			t.Fatal(err)
		}
		other.Path = "/postgres"
		c.env = append(c.env, "WEIR_DATABASE_REPLICATION_URL="+other.String())
		expect(t, diagnose(c, exitFindings, "--no-stripe"), "replication", levelFail, "database.replication_url to postgres")
	})
}

// What the catalog says of a role isn't asked: the probe connects as the relay would (lesson 19).
func TestDoctorProbesTheRole(t *testing.T) {
	c, db := onDatabase(t)
	role := db.Name() + "_r"
	db.Exec(t, `CREATE ROLE `+role+` LOGIN PASSWORD 'secret'`)
	t.Cleanup(func() {
		_, err := db.Pool().Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		if err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	c.env[0] = "WEIR_DATABASE_URL=" + u.String()
	relay := &cli{t: t, env: append([]string{"WEIR_STRIPE_KEY=sk_test_weir", "WEIR_HTTP_LISTEN=off"}, c.env...)}
	relay.run("run").wants(exitFailed, "permission denied for schema weir", "weir doctor says which")
	found := diagnose(c, exitFindings, "--no-stripe")
	expect(t, found, "privileges", levelFail, "may not use the schema")
	expect(t, found, "replication", levelFail, "can't connect for replication")
	db.Exec(t, `GRANT USAGE ON SCHEMA weir TO `+role)
	relay.run("run").wants(exitFailed, "may not update weir.deliveries", "run weir doctor")
	db.Exec(t, `GRANT SELECT, UPDATE ON weir.deliveries TO `+role)
	found = diagnose(c, exitFindings, "--no-stripe")
	expect(t, found, "privileges", levelFail, "weir.outbox SELECT")
	if strings.Contains(found["privileges"].What, "weir.deliveries UPDATE") {
		t.Errorf("got %s", found["privileges"].What)
	}
}

// The privileges that docs/operation.md names are enough for the relay, and doctor says so.
func TestDoctorTakesTheDocumentedRoles(t *testing.T) {
	const documented = "../../docs/operation.md"
	text, err := os.ReadFile(documented)
	if err != nil {
		t.Fatal(err)
	}
	c, db := onDatabase(t)
	grants := regexp.MustCompile(`(?m)^GRANT .* TO weir_relay;`).FindAllString(string(text), -1)
	if len(grants) < 8 {
		t.Fatalf("found few grants in %s: %q", documented, grants)
	}
	role := db.Name() + "_relay"
	db.Exec(t, `CREATE ROLE `+role+` LOGIN REPLICATION PASSWORD 'secret'`)
	t.Cleanup(func() {
		_, err := db.Pool().Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		if err != nil {
			t.Error(err)
		}
	})
	for _, grant := range grants {
		db.Exec(t, strings.Replace(grant, " TO weir_relay;", " TO "+role, 1))
	}
	u, err := url.Parse(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	c.env[0] = "WEIR_DATABASE_URL=" + u.String()
	found := diagnose(c, exitOK, "--no-stripe", "--set", "reconcile.enabled=true")
	expect(t, found, "schema", levelOK, "is at version")
	expect(t, found, "privileges", levelNote, "weir enqueue needs weir.outbox INSERT")
	if what := found["privileges"].What; strings.Contains(what, "weir gc") {
		t.Errorf("privileges: %s", what)
	}
}

func TestClock(t *testing.T) {
	at := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		server        time.Duration
		round         time.Duration
		want          level
		wantDirection string
	}{
		{0, 10 * time.Millisecond, levelOK, ""},
		{time.Minute, 10 * time.Millisecond, levelWarn, "is 59.995s off"},
		{-time.Minute, 10 * time.Millisecond, levelWarn, "-1m0.005s"},
		{3 * time.Second, 8 * time.Second, levelOK, ""}, // a slow answer proves nothing
	} {
		d := &doctor{}
		d.clock(at.Add(tt.server), at, at.Add(tt.round))
		if f := d.findings[0]; f.Level != tt.want || !strings.Contains(f.What, tt.wantDirection) {
			t.Errorf("%v: got %+v", tt.server, f)
		}
	}
}
