package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "1024": 1024, "512MiB": 512 << 20, "8 GiB": 8 << 30, "3B": 3} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "8GB", "1.5GiB", "GiB", "99999999999TiB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
	for s, want := range map[Size]string{0: "0", 1 << 30: "1GiB", 1536: "1536B", 3 << 20: "3MiB"} {
		if got := s.String(); got != want {
			t.Errorf("%d: got %s, want %s", int64(s), got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"40d": 960 * time.Hour, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "-1d", "1.5d", "999999999999d", "1 hour"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
	for d, want := range map[time.Duration]string{2 * time.Minute: "2m", 23 * time.Hour: "23h", 90 * time.Second: "1m30s", 10 * time.Second: "10s", 70 * time.Minute: "1h10m"} {
		if got := formatDuration(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Whatever way a secret is printed, it isn't given away.
func TestRedaction(t *testing.T) {
	const password, key = "hunter2hunter2", "abcdefghijklmnop"
	c, err := load(t, "", "WEIR_STRIPE_KEY=sk_live_"+key,
		"WEIR_DATABASE_URL=postgres://u:"+password+"@h/d", "WEIR_DATABASE_REPLICATION_URL=host=h password='"+password+"' user=u")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "url", c.Database.URL, "key", c.Lanes["stripe"].Stripe.Key, "c", c)
	for _, out := range []string{
		fmt.Sprint(c.Settings()), fmt.Sprintf("%v %+v %#v", c.Database, c.Database, c.Database),
		fmt.Sprintf("%+v %#v %q", *c.Lanes["stripe"], *c.Lanes["stripe"], c.Lanes["stripe"].Stripe.Key), string(asJSON), logged.String(),
	} {
		if strings.Contains(out, password) || strings.Contains(out, key) {
			t.Errorf("gives a secret away: %s", out)
		}
	}
	if got := c.Lanes["stripe"].Stripe.Key.String(); got != "sk_live_…mnop" {
		t.Errorf("key: got %s", got)
	}
	for dsn, want := range map[DSN]string{
		"postgres://u:secret@h/d":               "postgres://u:xxxxx@h/d",
		"postgres://h/d?password=secret&user=u": "postgres://h/d?password=xxxxx&user=u",
		"host=h password=secret user=u":         "host=h password=xxxxx user=u",
		`host=h password='se cr\'et' user=u`:    "host=h password=xxxxx user=u",
		"postgres://u:sec%ret@h/d":              "(redacted: not a URL)",
	} {
		if got := dsn.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, s := range []Secret{"short", "sk_test_short", "noprefixbutlongenoughtobeone"} {
		if got := s.String(); got != "(redacted)" {
			t.Errorf("%q: got %s", string(s), got)
		}
	}
}

func TestReadKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	lane := &Lane{Stripe: Stripe{KeyFile: file}}
	if _, err := lane.ReadKey(); err == nil || !strings.Contains(err.Error(), "key_file") {
		t.Errorf("missing file: got %v", err)
	}
	for text, ok := range map[string]bool{"rk_live_abcdefgh\n": true, "": false, "pk_live_abcdefgh": false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := lane.ReadKey()
		if (err == nil) != ok || ok && key.Reveal() != strings.TrimSpace(text) {
			t.Errorf("%q: got %v, %v", text, key, err)
		}
	}
	if _, err := (&Lane{}).ReadKey(); err == nil || !strings.Contains(err.Error(), "WEIR_STRIPE_KEY") {
		t.Errorf("no key: got %v", err)
	}
}

func TestNearest(t *testing.T) {
	for got, want := range map[string]string{"leese": "lease", "horizno": "horizon", "LEASE": "lease", "zzzz": "", "attempt": "attempts"} {
		if near := Nearest(got, []string{"lease", "horizon", "attempts"}); near != want {
			t.Errorf("%s: got %q, want %q", got, near, want)
		}
	}
}
