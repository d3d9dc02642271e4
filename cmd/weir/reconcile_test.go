package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/reconcile"
)

// books is a CLI over a database and a Stripe that agree, until a test makes them differ.
type books struct {
	*cli
	db      *pgtest.DB
	store   *machine.Store
	stripe  *stripe.Exporter
	sandbox *sandbox.Sandbox
	hour    time.Time
	refs    int
}

func newBooks(t *testing.T, cfg sandbox.Config) *books {
	t.Helper()
	c, db := onDatabase(t)
	cfg.Meters = []sandbox.Meter{{EventName: "tokens"}}
	s := sandbox.New(cfg)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.Close)
	e, err := stripe.New(stripe.Config{Key: "sk_test_weir", URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c.env = append(c.env, "WEIR_STRIPE_URL="+server.URL, "WEIR_STRIPE_KEY=sk_test_weir", "WEIR_RECONCILE_SETTLE_DELAY=1ms")
	return &books{
		cli: c, db: db, store: machine.NewStore(db.Pool(), machine.DefaultPolicy()), stripe: e, sandbox: s,
		hour: time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour),
	}
}

// claim stages an item and takes it.
func (b *books) claim(customer, value string) machine.Item {
	b.t.Helper()
	b.refs++
	var id int64
	err := b.db.Pool().QueryRow(b.t.Context(), `SELECT weir.enqueue('t', $1, 'test', '1', $2::jsonb)`, fmt.Sprint("b-", b.refs),
		fmt.Sprintf(`{"customer": %q, "meter": "tokens", "value": %q, "timestamp": %d}`, customer, value, b.hour.Unix())).Scan(&id)
	if err != nil {
		b.t.Fatal(err)
	}
	items, err := b.store.Claim(b.t.Context(), machine.Claimer{Exporter: "stripe", Owner: "w"}, []int64{id})
	if err != nil || len(items) != 1 {
		b.t.Fatalf("claim: %d, %v", len(items), err)
	}
	return items[0]
}

func (b *books) deliver(item machine.Item) {
	b.t.Helper()
	if o := b.stripe.Deliver(b.t.Context(), []machine.Item{item}); o[0].Kind != exporter.Accepted {
		b.t.Fatalf("deliver: %+v", o)
	}
}

// accepted is an item that weir believes to have arrived.
func (b *books) accepted(customer, value string, arrived bool) int64 {
	b.t.Helper()
	item := b.claim(customer, value)
	if arrived {
		b.deliver(item)
	}
	if _, err := b.store.Accept(b.t.Context(), []machine.Acceptance{{Ref: item.Ref()}}); err != nil {
		b.t.Fatal(err)
	}
	return item.ID
}

func (b *books) uncertain(customer, value string, arrived bool) int64 {
	b.t.Helper()
	item := b.claim(customer, value)
	if arrived {
		b.deliver(item)
	}
	if _, err := b.store.Doubt(b.t.Context(), []machine.Failure{{Ref: item.Ref(), Cause: machine.Cause{Code: "timeout"}}}); err != nil {
		b.t.Fatal(err)
	}
	return item.ID
}

func (b *books) state(id int64, want machine.State) {
	b.t.Helper()
	if got := stateOf(b.t, b.db, id); got != want {
		b.t.Errorf("item %d is %s, want %s", id, got, want)
	}
}

func TestReconcile(t *testing.T) {
	b := newBooks(t, sandbox.Config{})
	good := b.accepted("cus_1", "5", true)
	bad := b.accepted("cus_2", "7", false)
	b.run("reconcile").wants(exitFindings, "weir has more by 7", fmt.Sprintf("%d (accepted)", bad), "1 agree, 1 differ", "Would confirm 1 item")
	b.state(good, machine.Accepted)
	b.run("status").wants(exitOK, "EXPORTER")
	b.run("reconcile", "--apply").wants(exitFindings, "Confirmed 1 item.")
	b.state(good, machine.Confirmed)
	b.state(bad, machine.Accepted)
	b.run("status").wants(exitOK, "Stripe's sums differ from weir's in 1 hour (Stripe has more in 0, weir in 1")
	var got struct {
		Lanes []struct{ Buckets []reconcile.Finding }
	}
	from := b.hour.Format(time.RFC3339)
	b.run("reconcile", "--customer", "cus_2", "--meter", "tokens", "--from", from, "--json").wants(exitFindings).json(&got)
	if len(got.Lanes) != 1 || len(got.Lanes[0].Buckets) != 1 || got.Lanes[0].Buckets[0].Expected.String() != "7" || len(got.Lanes[0].Buckets[0].Candidates) != 1 {
		t.Errorf("got %+v", got)
	}
	b.run("reconcile", "--customer", "cus_1", "--meter", "tokens", "--from", from, "--all").wants(exitOK, "agrees")
	b.run("reconcile", "--missing", fmt.Sprint(bad)).wants(exitUsage, "--reason")
	b.run("reconcile", "--acknowledge", "--reason", "r").wants(exitFailed, "name what is missing instead")
	b.run("reconcile", "--missing", fmt.Sprint(bad), "--reason", "dropped").wants(exitOK, "rejected as missing")
	b.state(bad, machine.Rejected)
	b.run("reconcile", "--acknowledge", "--reason", "r").wants(exitFailed, "no hour differs")
	b.run("reconcile", "--from", "yesterday").wants(exitUsage, "--from")
	b.run("reconcile", "--lane", "other").wants(exitUsage, "no Stripe lane other")
	b.run("reconcile", "--reads", "0").wants(exitUsage, "--reads")
}

func TestRecoverByEvidence(t *testing.T) {
	b := newBooks(t, sandbox.Config{})
	b.run("recover").wants(exitOK, "no item is uncertain")
	b.accepted("cus_1", "5", true)
	counted := b.uncertain("cus_1", "3", true)
	lost := b.uncertain("cus_2", "4", false)
	either, or := b.uncertain("cus_3", "1", true), b.uncertain("cus_3", "1", false)
	b.run("recover").wants(exitOK, "was counted", "was not counted", "can't tell", "Would recover 2 items", "2 items can't be decided", "the difference needs this item's 3")
	b.state(counted, machine.Uncertain)
	b.run("recover", fmt.Sprint(lost), "--apply").wants(exitOK, "1 item moved")
	b.state(lost, machine.Pending)
	b.state(counted, machine.Uncertain)
	b.run("recover", "--apply", "--reason", "asked Stripe").wants(exitFindings, "1 item moved")
	b.state(counted, machine.Accepted)
	b.state(either, machine.Uncertain)
	b.state(or, machine.Uncertain)
	var n int
	err := b.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM weir.operations WHERE action = 'recover' AND reason LIKE '%evidence: cus_%'`).Scan(&n)
	if err != nil || n != 2 {
		t.Errorf("%d operations, %v", n, err)
	}
	b.run("recover", fmt.Sprint(counted)).wants(exitFindings, "it is accepted")
}

// The relay itself: what Stripe refuses later comes back as a signed webhook, what it counts is confirmed.
func TestRunReconciles(t *testing.T) {
	var to http.Handler = http.NotFoundHandler()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { to.ServeHTTP(w, r) }))
	defer hook.Close()
	address := freeAddress(t)
	to = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+address+r.URL.Path, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		q.Header = r.Header
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
	})
	b := newBooks(t, sandbox.Config{
		Customers: []sandbox.Customer{{ID: "cus_1"}},
		Webhooks:  []sandbox.Webhook{{URL: hook.URL + "/webhooks/stripe/stripe", Secret: "whsec_1"}},
	})
	b.env = append(b.env, "WEIR_HTTP_LISTEN=off", "WEIR_HTTP_WEBHOOKS="+address, "WEIR_STRIPE_WEBHOOK_SECRET=whsec_1",
		"WEIR_RECONCILE_ENABLED=true", "WEIR_RECONCILE_INTERVAL=50ms", "WEIR_RECONCILE_READS_PER_HOUR=1000000", "WEIR_LOG_LEVEL=error")
	good, bad := b.enqueue("cus_1"), b.enqueue("cus_gone")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan *result)
	go func() { done <- b.runContext(ctx, "run") }()
	pgtest.Eventually(t, 20*time.Second, func() error {
		if got := stateOf(t, b.db, bad); got != machine.Accepted {
			return fmt.Errorf("the item to be refused is %s", got)
		}
		return nil
	})
	pgtest.Eventually(t, 20*time.Second, func() error { return b.sandbox.Publish(t.Context()) })
	pgtest.Eventually(t, 20*time.Second, func() error {
		if g, r := stateOf(t, b.db, good), stateOf(t, b.db, bad); g != machine.Confirmed || r != machine.Rejected {
			return fmt.Errorf("got %s and %s", g, r)
		}
		return nil
	})
	stop()
	if r := <-done; r.code != exitOK || strings.Contains(r.stderr, "panic") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

func (b *books) enqueue(customer string) (id int64) {
	b.t.Helper()
	b.refs++
	payload, err := json.Marshal(map[string]any{"customer": customer, "meter": "tokens", "value": 1, "timestamp": b.hour.Unix()})
	if err == nil {
		err = b.db.Pool().QueryRow(b.t.Context(), `SELECT weir.enqueue('t', $1, 'test', '1', $2::jsonb)`, fmt.Sprint("b-", b.refs), string(payload)).Scan(&id)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// freeAddress is one on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	return strings.TrimPrefix(s.URL, "http://")
}
