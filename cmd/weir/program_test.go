package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-relay/weir/migrations"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

// golden compares with a file in testdata.
func golden(t *testing.T, dir, name, got string) {
	t.Helper()
	path := filepath.Join(dir, "testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n(go test -rewrite accepts it)", name, got, want)
	}
}

func TestHelp(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c := newCLI(t)
	golden(t, dir, "help.txt", c.run("help").wants(exitOK).stdout)
	if got, want := c.run().wants(exitOK).stdout, c.run("help").stdout; got != want {
		t.Error("without arguments: want the help")
	}
}

func TestUsage(t *testing.T) {
	c := newCLI(t)
	c.run("lst").wants(exitUsage, `weir has no command "lst"; did you mean list?`, "See weir --help")
	c.run("slot", "crate").wants(exitUsage, "did you mean create?", "See weir slot --help")
	c.run("list", "--nope").wants(exitUsage, "unknown flag: --nope", "See weir list --help")
	c.run("show").wants(exitUsage)
	c.run("list").wants(exitUsage, "no database: set WEIR_DATABASE_URL")
	c.run("list", "--set", "policy.lease").wants(exitUsage, "write key=value")
	c.run("list", "--set", "policy.leese=1m").wants(exitUsage, "did you mean policy.lease?")
	c.run("list", "--config", "gone.yaml").wants(exitUsage, "gone.yaml")
	c.run("list", "--log-level", "loud").wants(exitUsage, "flag --log-level: log.level")
}

func TestUnreachable(t *testing.T) {
	c := newCLI(t, "WEIR_DATABASE_URL=postgres://u:hunter2@127.0.0.1:1/d")
	r := c.run("list").wants(exitFailed, "connect to postgres://u:xxxxx@127.0.0.1:1/d", "check that the server runs")
	if strings.Contains(r.stdout+r.stderr, "hunter2") {
		t.Error("the password is in the output")
	}
}

func TestVersion(t *testing.T) {
	c := newCLI(t)
	c.run("version").wants(exitOK, "weir ", fmt.Sprint("migrations ", migrations.Latest()))
	var b build
	c.run("version", "--json").json(&b)
	if b.Go == "" || b.Migrations != migrations.Latest() {
		t.Errorf("got %+v", b)
	}
}

func TestConfigCommands(t *testing.T) {
	c := newCLI(t, "WEIR_DATABASE_URL=postgres://u:hunter2@h/d")
	c.run("config", "check").wants(exitUsage, "no Stripe key")
	c.env = append(c.env, "WEIR_STRIPE_KEY=sk_test_secretsecretsecret")
	c.run("config", "check").wants(exitOK, "The settings are right (no file")
	r := c.run("config", "show").wants(exitOK, "policy.lease", "2m", "default", "env WEIR_STRIPE_KEY", "postgres://u:xxxxx@h/d")
	if strings.Contains(r.stdout, "hunter2") || strings.Contains(r.stdout, "secretsecret") {
		t.Errorf("gives a secret away:\n%s", r.stdout)
	}
	var settings []struct{ Path, Value, Origin string }
	c.run("config", "show", "--json", "--set", "policy.lease=3m").json(&settings)
	for _, s := range settings {
		if s.Path == "policy.lease" && (s.Value != "3m" || s.Origin != "flag --set") {
			t.Errorf("got %+v", s)
		}
	}
	c.run("config", "reference").wants(exitOK, "| `policy.lease` |")
	c.env = append(c.env, "WEIR_HTTP_LISTEN=:80")
	c.run("config", "check").wants(exitOK, "warning: http.listen")
}
