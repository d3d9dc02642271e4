package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
)

// TestMain lets the test binary be weir too, for the commands that start `weir run`.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		main()
	}
	pgtest.Main(m)
}

// cli runs commands against one database, in a folder without a configuration file.
type cli struct {
	t     *testing.T
	env   []string
	stdin string
}

// result is what a command left behind.
type result struct {
	t              *testing.T
	args           []string
	code           int
	stdout, stderr string
}

func newCLI(t *testing.T, env ...string) *cli {
	t.Helper()
	t.Chdir(t.TempDir())
	return &cli{t: t, env: env}
}

// onDatabase is newCLI with a migrated database.
func onDatabase(t *testing.T) (*cli, *pgtest.DB) {
	t.Helper()
	db := pgtest.Migrated(t)
	return newCLI(t, "WEIR_DATABASE_URL="+db.URL(), "WEIR_REPLICATION_SLOT="+db.Name()), db
}

func (c *cli) run(args ...string) *result {
	c.t.Helper()
	return c.runContext(c.t.Context(), args...)
}

func (c *cli) runContext(ctx context.Context, args ...string) *result {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, strings.NewReader(c.stdin), &stdout, &stderr, c.env)
	return &result{c.t, args, code, stdout.String(), stderr.String()}
}

// wants checks the exit code, and that each text is in the output.
func (r *result) wants(code int, texts ...string) *result {
	r.t.Helper()
	if r.code != code {
		r.t.Errorf("weir %s: exit code %d, want %d", strings.Join(r.args, " "), r.code, code)
	}
	for _, text := range texts {
		if !strings.Contains(r.stdout+r.stderr, text) {
			r.t.Errorf("weir %s: want %q in the output", strings.Join(r.args, " "), text)
		}
	}
	if r.t.Failed() {
		r.t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
	return r
}

// json reads the output, which must be one JSON value.
func (r *result) json(into any) {
	r.t.Helper()
	d := json.NewDecoder(strings.NewReader(r.stdout))
	if err := d.Decode(into); err != nil {
		r.t.Fatalf("weir %s: %v in\n%s", strings.Join(r.args, " "), err, r.stdout)
	}
	if d.More() {
		r.t.Errorf("weir %s: more than one JSON value:\n%s", strings.Join(r.args, " "), r.stdout)
	}
}
