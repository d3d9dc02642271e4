package postgres

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func start(t *testing.T, opts Options) *Cluster {
	t.Helper()
	opts.NoFsync = true
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return c
}

func query(t *testing.T, c *Cluster, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var value string
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func execute(t *testing.T, c *Cluster, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestSettings(t *testing.T) {
	c := start(t, Options{SharedBuffers: "16MB", Settings: map[string]string{"cluster_name": `it's a \ here`, "max_connections": "30"}})
	for name, want := range map[string]string{
		"wal_level":             "logical",
		"synchronous_commit":    "on",
		"fsync":                 "off",
		"max_replication_slots": "20",
		"max_wal_senders":       "20",
		"max_connections":       "30", // Options.Settings win
		"shared_buffers":        "16MB",
		"cluster_name":          `it's a \ here`,
		"server_encoding":       "UTF8",
		"listen_addresses":      "127.0.0.1",
	} {
		if got := query(t, c, "SHOW "+name); got != want {
			t.Errorf("%s: want %q, got %q", name, want, got)
		}
	}
}

func TestSet(t *testing.T) {
	c := start(t, Options{})
	if err := c.Set(t.Context(), "wal_sender_timeout", "1234ms"); err != nil {
		t.Fatal(err)
	}
	if got := query(t, c, "SHOW wal_sender_timeout"); got != "1234ms" {
		t.Errorf("want 1234ms at once, got %s", got)
	}
	if err := c.Set(t.Context(), "no_such_setting", "1"); err == nil {
		t.Error("an unknown setting: want an error")
	}
}

func TestPasswordIsAsked(t *testing.T) {
	c := start(t, Options{})
	url := strings.Replace(c.URL("postgres"), c.password, "guess", 1)
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(t.Context())
		t.Error("any local user may connect over TCP")
	}
}

func TestRestartKeepsDataAndPort(t *testing.T) {
	tests := map[string]func(*Cluster) error{
		"running":     func(*Cluster) error { return nil },
		"after crash": (*Cluster).Crash,
		"after kill":  (*Cluster).Kill,
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			c := start(t, Options{})
			execute(t, c, "CREATE TABLE kept AS SELECT 'yes' AS answer")
			url := c.URL("postgres")
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			if err := c.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := query(t, c, "SELECT answer FROM kept"); got != "yes" || c.URL("postgres") != url {
				t.Errorf("want yes at %s, got %s at %s", url, got, c.URL("postgres"))
			}
		})
	}
}

func TestKillLeavesNoBackend(t *testing.T) {
	c := start(t, Options{})
	conn, err := pgx.Connect(t.Context(), c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	backend := int(conn.PgConn().PID())
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if alive(backend) {
		t.Errorf("backend %d outlived Kill", backend)
	}
}

func TestStop(t *testing.T) {
	for _, keep := range []bool{false, true} {
		c := start(t, Options{Keep: keep, Dir: os.TempDir()})
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(c.Dir()); (err == nil) != keep {
			t.Errorf("Keep %v: stat %s: %v", keep, c.Dir(), err)
		}
		if err := c.Stop(); err != nil {
			t.Errorf("second stop: %v", err)
		}
		if err := os.RemoveAll(c.Dir()); err != nil {
			t.Error(err)
		}
	}
}

func TestStartErrorCarriesTheServersLog(t *testing.T) {
	_, err := Start(t.Context(), Options{Dir: os.TempDir(), Settings: map[string]string{"wal_level": "nonsense"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "wal_level"`) {
		t.Errorf("want Postgres' own words, got %v", err)
	}
}

func TestStandbyAndPromote(t *testing.T) {
	primary := start(t, Options{})
	execute(t, primary, "CREATE TABLE copied AS SELECT 'yes' AS answer")
	standby, err := primary.Standby(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { standby.Stop() })
	if got := query(t, standby, "SELECT pg_is_in_recovery()::text"); got != "true" {
		t.Errorf("in recovery: want true, got %s", got)
	}
	if err := primary.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, standby, "INSERT INTO copied VALUES ('and more')")
}
