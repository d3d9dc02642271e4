package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/internal/pgtest"
)

// withStripe adds a stand-in to a command line's environment.
func withStripe(t *testing.T, c *cli, cfg sandbox.Config) *sandbox.Sandbox {
	t.Helper()
	s := sandbox.New(cfg)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.Close)
	c.env = append(c.env, "WEIR_STRIPE_URL="+server.URL, "WEIR_STRIPE_KEY=sk_test_weir", "WEIR_HTTP_LISTEN=off",
		"WEIR_REPLICATION_ENABLED=false", "WEIR_RELAY_POLL_INTERVAL=50ms")
	return s
}

// enqueueUsage commits an item with the payload's own part.
func enqueueUsage(t *testing.T, db *pgtest.DB, ref, rest string) {
	t.Helper()
	db.Exec(t, `SELECT weir.enqueue('t', $1, 'test', '1', jsonb_build_object('customer', 'cus_1', 'value', 1, 'timestamp',
		extract(epoch FROM now())::bigint) || $2::jsonb)`, ref, rest)
}

// states lists the items' states and reasons, by subject_ref.
func states(ctx context.Context, db *pgtest.DB) (string, error) {
	var got string
	err := db.Pool().QueryRow(ctx, `SELECT coalesce(string_agg(subject_ref || ' ' || state || coalesce(' ' || quarantine_reason, ''), ', ' ORDER BY subject_ref), '')
		FROM weir.items`).Scan(&got)
	return got, err
}

// runUntil runs weir run until the items stand as wanted, and answers what it said.
func runUntil(t *testing.T, c *cli, db *pgtest.DB, want string) *result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan *result, 1)
	go func() { done <- c.runContext(ctx, "run") }()
	pgtest.Eventually(t, 20*time.Second, func() error {
		got, err := states(t.Context(), db)
		if err == nil && got != want {
			err = fmt.Errorf("items: got %s, want %s", got, want)
		}
		return err
	})
	cancel()
	return <-done
}

// One unsafe meter doesn't take the relay down: its items are quarantined, the others go out, and a mapping applies.
func TestRunWithUnsafeMeter(t *testing.T) {
	c, db := onDatabase(t)
	withStripe(t, c, sandbox.Config{Meters: []sandbox.Meter{{EventName: "tokens"}, {EventName: "daily", EventTimeWindow: sandbox.WindowDay}}})
	err := os.WriteFile("weir.yaml", []byte(`
lanes:
  stripe:
    stripe:
      mapping:
        version: "1"
        features: {chat: {meter: tokens}, reports: {meter: daily}, video: {meter: minutes}}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	enqueueUsage(t, db, "a", `{"feature": "chat"}`)
	enqueueUsage(t, db, "b", `{"feature": "reports"}`)
	enqueueUsage(t, db, "c", `{"feature": "video"}`)
	enqueueUsage(t, db, "d", `{"meter": "tokens"}`)
	enqueueUsage(t, db, "e", `{"feature": "audio"}`)
	r := runUntil(t, c, db, "a accepted, b quarantined meter_preaggregated, c quarantined meter_unknown, d accepted, e quarantined feature_unmapped")
	r.wants(exitOK, "code=meter_preaggregated meter=daily", "code=meter_unknown meter=minutes")
	expect(t, diagnose(c, exitFindings), "lane stripe", levelFail, "meter")

	c.env = append(c.env, "WEIR_STRIPE_STRICT=true")
	c.run("run").wants(exitFailed, "lane stripe is strict", "meter_preaggregated", "create it, or correct the name")
}

// Stripe out of reach never keeps a relay from starting, a strict one neither.
func TestRunWithoutStripe(t *testing.T) {
	c, db := onDatabase(t)
	s := withStripe(t, c, sandbox.Config{Meters: []sandbox.Meter{{EventName: "tokens"}}})
	c.env = append(c.env, "WEIR_STRIPE_STRICT=true")
	s.Down(true)
	enqueueUsage(t, db, "a", `{"meter": "tokens", "timestamp": "soon"}`) // settled without asking Stripe
	runUntil(t, c, db, "a quarantined timestamp_invalid").wants(exitOK, "couldn't be asked", "delivering")
}

// A correction waits for its original, by the relay's own database, and over the stream too.
func TestRunCorrects(t *testing.T) {
	for _, stream := range []string{"false", "true"} {
		t.Run("stream "+stream, func(t *testing.T) {
			c, db := onDatabase(t)
			s := withStripe(t, c, sandbox.Config{Meters: []sandbox.Meter{{EventName: "tokens"}}})
			c.env = append(c.env, "WEIR_STRIPE_STREAM="+stream)
			enqueueUsage(t, db, "a", `{"meter": "tokens"}`)
			enqueueUsage(t, db, "b", `{"meter": "tokens", "customer": null}`)
			var billed, unbilled string
			if err := db.Pool().QueryRow(t.Context(), `SELECT min(identifier) FILTER (WHERE subject_ref = 'a'), min(identifier) FILTER (WHERE subject_ref = 'b')
				FROM weir.items`).Scan(&billed, &unbilled); err != nil {
				t.Fatal(err)
			}
			for ref, identifier := range map[string]string{"c": billed, "d": unbilled} {
				db.Exec(t, `SELECT weir.enqueue('t', $1, 'test', '1', jsonb_build_object('meter', 'tokens', 'cancel', $2::text), subject_kind => 'adjustment')`, ref, identifier)
			}
			runUntil(t, c, db, "a accepted, b quarantined no_customer, c accepted, d quarantined original_ineligible").wants(exitOK)
			if entry, _ := s.Entry(billed); !entry.Cancelled {
				t.Errorf("entry %+v, want it cancelled", entry)
			}
		})
	}
}

// What a look finds is said once, and counted each time; a mode mismatch is counted.
func TestStripeLaneReports(t *testing.T) {
	c := newCLI(t)
	withStripe(t, c, sandbox.Config{})
	var said strings.Builder
	a := &app{stderr: &said, env: c.env}
	loaded, err := a.config()
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	lanes := newStripeLanes(a, nil, a.logger(loaded), registry)
	if _, err := lanes.add("stripe", loaded.Lanes["stripe"]); err != nil {
		t.Fatal(err)
	}
	found := []stripe.Finding{{Severity: stripe.Broken, Code: "no_meters", Detail: "there are none", Hint: "create one"}}
	lanes.lanes[0].report(found, nil)
	lanes.lanes[0].report(found, nil)
	if n := strings.Count(said.String(), "there are none"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &said)
	}
	const want = `
# HELP weir_stripe_findings What the latest look at key, account and meters found, by severity: error, warning. weir doctor says what.
# TYPE weir_stripe_findings gauge
weir_stripe_findings{exporter="stripe",severity="error"} 1
weir_stripe_findings{exporter="stripe",severity="warning"} 0
# HELP weir_stripe_mode_mismatch_total Answers that came from the other mode than the key's. The first one stops its lane.
# TYPE weir_stripe_mode_mismatch_total counter
weir_stripe_mode_mismatch_total{exporter="stripe"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
