package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/machine"
)

// write makes a configuration file and answers its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, text string, env ...string) (*Config, error) {
	t.Helper()
	return Load(Sources{File: write(t, text), Env: env})
}

func TestDefaults(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Policy.Machine(), machine.DefaultPolicy(); got != want {
		t.Errorf("policy: got %+v, want that of package machine, %+v", got, want)
	}
	if len(c.Lanes) != 1 || c.Lanes["stripe"] == nil || c.Lanes["stripe"].Type != "stripe" || c.Lanes["stripe"].Order != machine.BestEffort {
		t.Errorf("lanes: got %+v, want the one lane stripe", c.Lanes)
	}
	if c.Replication.Fuse != 8<<30 || !c.Replication.Enabled || c.HTTP.Listen != "127.0.0.1:9464" {
		t.Errorf("got %+v", c)
	}
	for _, s := range c.Settings() {
		if s.Origin != "default" {
			t.Errorf("%s: origin %q, want default", s.Path, s.Origin)
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := write(t, "policy:\n  lease: 3m\n  attempts: 7\nlog: {level: warn}\nrelay:\n")
	c, err := Load(Sources{
		File:  file,
		Env:   []string{"WEIR_POLICY_ATTEMPTS=8", "WEIR_LOG_LEVEL=error", "HOME=/x", "WEIR_TEST_POSTGRES=auto", "WEIR_RELAY_OWNER="},
		Flags: []Flag{{"--log-level", "log.level", "debug"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Policy.Lease != 3*time.Minute || c.Policy.Attempts != 8 || c.Log.Level != "debug" {
		t.Errorf("got %+v %+v", c.Policy, c.Log)
	}
	for path, want := range map[string]string{
		"policy.lease":    file + ":2",
		"policy.attempts": "env WEIR_POLICY_ATTEMPTS",
		"log.level":       "flag --log-level",
		"relay.owner":     "default",
	} {
		if got := c.Origin(path).String(); got != want {
			t.Errorf("%s: origin %q, want %q", path, got, want)
		}
	}
}

func TestLanes(t *testing.T) {
	c, err := load(t, `
lanes:
  stripe:
    stripe: &common {calls: 3, meters: {"api.calls": {value_key: n}}}
  eu: {order: per_key, stripe: *common}
  dry: {type: null}
`, "WEIR_STRIPE_KEY=sk_test_aaaaaaaaaaaaaaaa", "WEIR_LANES_EU_KEY=rk_live_bbbbbbbbbbbbbbbb", "WEIR_LANES_EU_RATE_LIMIT_DELAY=1m")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Lanes["stripe"].Stripe.Key.Reveal(); got != "sk_test_aaaaaaaaaaaaaaaa" {
		t.Errorf("stripe: key %q", got)
	}
	eu := c.Lanes["eu"]
	if eu.Stripe.Key.Reveal() != "rk_live_bbbbbbbbbbbbbbbb" || eu.Stripe.Calls != 3 || eu.Stripe.RateLimitDelay != time.Minute || eu.Order != machine.PerKey {
		t.Errorf("eu: got %+v", eu)
	}
	if m := eu.Stripe.Meters["api.calls"]; m == nil || *m != (Meter{"stripe_customer_id", "n"}) {
		t.Errorf("eu: meter %+v", m)
	}
	if c.Lanes["dry"].Type != "null" {
		t.Errorf("dry: type %q, want the word null as it is written", c.Lanes["dry"].Type)
	}
}

func TestMapping(t *testing.T) {
	c, err := load(t, `
lanes:
  stripe:
    stripe:
      stream: true
      strict: true
      stream_address: http://127.0.0.1:1
      meters: {tokens: {customer_key: who}}
      mapping:
        version: "3"
        accepts: ["1", 2]
        features:
          chat.large: {meter: tokens, customer_key: who, format: decimal, dimensions: [model, region], account: acct_1, mode: live, since: 2026-01-01T00:00:00+01:00}
          files: {meter: gb, buffered: true, dimensions: []}
`, "WEIR_STRIPE_CALLS=4")
	if err != nil {
		t.Fatal(err)
	}
	s := c.Lanes["stripe"].Stripe
	if !s.Stream || !s.Strict || s.Calls != 4 || s.StreamAddress != "http://127.0.0.1:1" || s.Mapping.Version != "3" || !slices.Equal(s.Mapping.Accepts, Words{"1", "2"}) {
		t.Errorf("got %+v", s)
	}
	chat, files := s.Mapping.Features["chat.large"], s.Mapping.Features["files"]
	if chat.Meter != "tokens" || chat.Format != "decimal" || !slices.Equal(chat.Dimensions, Words{"model", "region"}) || chat.Account != "acct_1" ||
		chat.Mode != "live" || !chat.Since.Equal(time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC)) || chat.Buffered {
		t.Errorf("chat: got %+v", chat)
	}
	if files.Format != "integer" || files.Dimensions != nil || !files.Since.IsZero() || !files.Buffered {
		t.Errorf("files: got %+v", files)
	}
	for _, set := range c.Settings() {
		if want, ok := map[string]string{
			"lanes.stripe.stripe.mapping.accepts":                        "1, 2",
			"lanes.stripe.stripe.mapping.features.chat.large.dimensions": "model, region",
			"lanes.stripe.stripe.mapping.features.chat.large.since":      "2026-01-01T00:00:00+01:00",
			"lanes.stripe.stripe.mapping.features.files.since":           "",
		}[set.Path]; ok && set.Value != want {
			t.Errorf("%s is shown as %q, want %q", set.Path, set.Value, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		env  string
		want []string // parts of the message
	}{
		"key":             {text: "policy:\n  leese: 1m\n", want: []string{"w.yaml:2", "policy.leese", "did you mean lease?"}},
		"top key":         {text: "databse: {}\n", want: []string{"w.yaml:1", "databse", "did you mean database?"}},
		"far key":         {text: "log: {zzzzzzzz: 1}\n", want: []string{"known here: level, format"}},
		"lane key":        {text: "lanes:\n  a:\n    stripe: {acount: x}\n", want: []string{"w.yaml:3", "lanes.a.stripe.acount", "did you mean account?"}},
		"lane name":       {text: "lanes: {EU-1: {}}\n", want: []string{`"EU-1" is no name of a lane`}},
		"twice":           {text: "log: {level: info}\nhttp: {}\nlog: {level: warn}\n", want: []string{"w.yaml:3", "second time, after line 1"}},
		"syntax":          {text: "log: [\n", want: []string{"w.yaml", "line"}},
		"two documents":   {text: "log: {}\n---\nlog: {}\n", want: []string{"more than one YAML document"}},
		"list":            {text: "log: [a]\n", want: []string{"holds a list where keys are expected"}},
		"scalar":          {text: "log: loud\n", want: []string{`holds the value "loud" where keys`}},
		"keys for value":  {text: "log: {level: {a: b}}\n", want: []string{"log.level", "holds keys where one value"}},
		"no value":        {text: "log:\n  level:\n", want: []string{"w.yaml:2", "log.level", "has no value"}},
		"merge":           {text: "x: &a {level: info}\nlog: {<<: *a}\n", want: []string{"there is no such key"}},
		"duration":        {text: "policy: {lease: 5}\n", want: []string{`policy.lease: "5" is not a duration`, "30s"}},
		"zero":            {text: "policy: {lease: 0s}\n", want: []string{"policy.lease: 0s: need more than 0"}},
		"int":             {text: "policy: {attempts: 1.5}\n", want: []string{"not a whole number"}},
		"bool":            {text: "replication: {enabled: maybe}\n", want: []string{"neither true nor false"}},
		"size":            {text: "replication: {fuse: 8GB}\n", want: []string{`"8GB" is not a size`, "GiB"}},
		"small fuse":      {text: "replication: {fuse: 1MiB}\n", want: []string{"replication.fuse", "64MiB"}},
		"word":            {text: "log: {level: inof}\n", want: []string{`log.level: "inof" is not one of debug, info, warn, error`, "did you mean info?"}},
		"order":           {text: "lanes: {a: {order: fifo}}\n", want: []string{"best_effort, per_key"}},
		"url":             {text: "database: {url: 'postgres://u:hunter2@h:99999999/d'}\n", want: []string{"database.url", "no connection string"}},
		"webhooks":        {text: "http: {webhooks: 9465}\n", want: []string{"http.webhooks", "is no address"}},
		"one address":     {text: "http: {webhooks: '127.0.0.1:9464'}\n", want: []string{"http.webhooks", "is also http.listen"}},
		"webhook secret":  {text: "lanes: {a: {stripe: {webhook_secret: sk_test_1}}}\n", want: []string{"lanes.a.stripe.webhook_secret", "whsec_"}},
		"two secrets":     {text: "lanes: {a: {stripe: {webhook_secret: whsec_1, webhook_secret_file: f}}}\n", want: []string{"webhook_secret_file", "keep one of them"}},
		"poll":            {text: "lanes: {a: {stripe: {poll_error_reports: true}}}\n", want: []string{"poll_error_reports", "needs reconcile.enabled"}},
		"reads":           {text: "reconcile: {reads_per_hour: 0}\n", want: []string{"reconcile.reads_per_hour", "need at least 1"}},
		"slot":            {text: "replication: {slot: My-Slot}\n", want: []string{"replication.slot"}},
		"status":          {text: "replication: {status_interval: 15s}\n", want: []string{"more than half of replication.wal_sender_timeout (20s)"}}, // lesson 17
		"cap below base":  {text: "policy: {backoff_base: 1h}\n", want: []string{"policy.backoff_cap: 15m is below policy.backoff_base (1h)"}},
		"cap and horizon": {text: "policy: {backoff_cap: 20h}\n", want: []string{"policy.backoff_cap", "reaches policy.horizon (23h)"}},
		"horizon":         {text: "policy: {horizon: 23h59m}\n", want: []string{"policy.horizon", "24 hours"}},
		"lease and send":  {text: "lanes: {a: {stripe: {timeout: 90s}}}\n", want: []string{"policy.lease: 2m is less than twice lanes.a.stripe.timeout (1m30s)"}}, // lesson 23
		"listen":          {text: "http: {listen: '9464'}\n", want: []string{"http.listen", "host:port"}},
		"publishable key": {env: "WEIR_STRIPE_KEY=pk_live_aaaaaaaaaaaaaaaa", want: []string{"publishable"}},
		"no key":          {env: "WEIR_STRIPE_KEY=whatever-this-is-secret", want: []string{"env WEIR_STRIPE_KEY: lanes.stripe.stripe.key", "sk_live_"}},
		"two keys":        {text: "lanes: {stripe: {stripe: {key_file: /x}}}\n", env: "WEIR_STRIPE_KEY=sk_test_aaaaaaaaaaaaaaaa", want: []string{"key_file", "keep one"}},
		"connect":         {text: "lanes: {stripe: {stripe: {connect: true}}}\n", want: []string{"connect: needs lanes.stripe.stripe.account"}},
		"rate":            {text: "lanes: {stripe: {stripe: {rate: -2}}}\n", want: []string{"-1 for no limit"}},
		"clear text":      {text: "lanes: {stripe: {stripe: {url: 'http://proxy.example'}}}\n", env: "WEIR_STRIPE_KEY=sk_live_aaaaaaaaaaaaaaaa", want: []string{"clear text"}},
		"no version":      {text: mapping("", "m: {meter: a}"), want: []string{"mapping.version: is missing"}},
		"no meter":        {text: mapping("1", "m: {}"), want: []string{"features.m.meter: is missing"}},
		"format":          {text: mapping("1", "m: {meter: a, format: int}"), want: []string{"w.yaml:1", "features.m.format", "integer, decimal"}},
		"feature's mode":  {text: mapping("1", "m: {meter: a, mode: prod}"), want: []string{`"prod" is not one of live, test`}},
		"since":           {text: mapping("1", "m: {meter: a, since: 2026-01-01}"), want: []string{`features.m.since: "2026-01-01" is not a time`}},
		"dimensions":      {text: mapping("1", "m: {meter: a, dimensions: [b, b]}"), want: []string{"features.m.dimensions", "each word once"}},
		"nested list":     {text: mapping("1", "m: {meter: a, dimensions: [[b]]}"), want: []string{"features.m.dimensions: holds a list"}},
		"feature's key":   {text: mapping("1", "m: {metre: a}"), want: []string{"did you mean meter?"}},
		"two meter keys":  {text: "lanes: {a: {stripe: {meters: {t: {value_key: n}}, mapping: {version: 1, features: {m: {meter: t, value_key: v}}}}}}", want: []string{`features.m.value_key: "v" is not what meters.t has ("n")`}},
		"stream address":  {text: "lanes: {a: {stripe: {stream_address: meter-events.stripe.com}}}", want: []string{"stream_address", "no address"}},
		"calls":           {text: "lanes: {a: {stripe: {calls: -1}}}", want: []string{"calls: -1: need at least 1"}},
		"variable":        {env: "WEIR_REPLICATION_SLOTT=x", want: []string{"env WEIR_REPLICATION_SLOTT", "did you mean WEIR_REPLICATION_SLOT?"}},
		"lane variable":   {env: "WEIR_LANES_OTHER_KEY=x", want: []string{"no such variable"}},
		"value of env":    {env: "WEIR_POLICY_LEASE=2x", want: []string{`env WEIR_POLICY_LEASE: policy.lease: "2x" is not a duration`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tt.text, tt.env)
			var problem *Error
			if !errors.As(err, &problem) {
				t.Fatalf("got %v, want an *Error", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got  %v\nwant %q in it", err, want)
				}
			}
			for _, secret := range []string{"hunter2", "whatever-this"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the message gives a secret away: %v", err)
				}
			}
		})
	}
}

// mapping is a file whose lane has one feature.
func mapping(version, feature string) string {
	return "lanes: {a: {stripe: {mapping: {version: '" + version + "', features: {" + feature + "}}}}}\n"
}

// database.replication_url is database.url where it isn't set, and not to be blamed for it.
func TestOneProblemOnce(t *testing.T) {
	_, err := load(t, "", "WEIR_DATABASE_URL=mysql://h/d")
	if err == nil || strings.Contains(err.Error(), "replication_url") {
		t.Errorf("got %v, want database.url alone", err)
	}
	_, err = load(t, "", "WEIR_DATABASE_URL=postgres://h/d", "WEIR_DATABASE_REPLICATION_URL=mysql://h/d")
	if err == nil || !strings.Contains(err.Error(), "env WEIR_DATABASE_REPLICATION_URL") {
		t.Errorf("got %v, want database.replication_url", err)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := load(t, "policy: {leese: 1m}\nlog: {level: loud}\n", "WEIR_NOPE_AT_ALL=1")
	for _, want := range []string{"leese", "loud", "WEIR_NOPE_AT_ALL"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestTwoVariablesForOneSetting(t *testing.T) {
	_, err := load(t, "", "WEIR_STRIPE_KEY=sk_test_aaaaaaaaaaaaaaaa", "WEIR_LANES_STRIPE_KEY=sk_test_bbbbbbbbbbbbbbbb")
	if err == nil || !strings.Contains(err.Error(), "is also set by") {
		t.Errorf("got %v", err)
	}
}

func TestIgnoredVariables(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Load(Sources{Env: []string{
		"WEIR_TEST_IMAGE=x", "WEIR_POSTGRES_BIN=/usr/bin", "WEIR_SERVICE_HOST=10.0.0.1", "WEIR_PORT=tcp://10.0.0.1:80",
		"WEIR_PORT_9464_TCP_ADDR=10.0.0.1", "WEIR_METRICS_SERVICE_PORT=1", "WEIRD=1",
	}})
	if err != nil {
		t.Error(err)
	}
}

func TestFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := Load(Sources{File: "gone.yaml"}); err == nil || !strings.Contains(err.Error(), "gone.yaml") {
		t.Errorf("missing file: got %v", err)
	}
	if err := os.WriteFile(DefaultFile, []byte("log: {level: warn}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(Sources{}); err != nil || c.Log.Level != "warn" || c.File() != DefaultFile {
		t.Errorf("default file: got %v, %v", c, err)
	}
	other := write(t, "log: {level: error}")
	if c, err := Load(Sources{Env: []string{"WEIR_CONFIG=" + other}}); err != nil || c.Log.Level != "error" {
		t.Errorf("WEIR_CONFIG: got %v, %v", c, err)
	}
}

func TestResolve(t *testing.T) {
	c, err := load(t, "database: {url: postgres://h/d}\nhttp: {listen: off}\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Database.ReplicationURL != c.Database.URL || c.HTTP.Listen != "" {
		t.Errorf("got %+v %+v", c.Database, c.HTTP)
	}
}

func FuzzFile(f *testing.F) {
	f.Add("policy:\n  lease: 3m\n")
	f.Add("lanes: {a: &x {stripe: {meters: {m: {value_key: v}}}}, b: *x}")
	f.Add("a: &a [*a]")
	f.Add("? {x: y}\n: z")
	f.Fuzz(func(t *testing.T, text string) {
		c := &Config{origins: map[string]Origin{}}
		c.apply([]byte(text)) // no panic, no endless loop
	})
}
