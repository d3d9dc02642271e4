package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/stripe/stripe-go/v82"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const secret = "whsec_test"

var quiet = slog.New(slog.DiscardHandler)

// rig is a Stripe whose webhooks reach a handler over a database.
type rig struct {
	*testing.T
	db       *pgtest.DB
	store    *machine.Store
	sandbox  *sandbox.Sandbox
	exporter *stripe.Exporter
	hook     *httptest.Server
	answered atomic.Int64 // the last status
}

func newRig(t *testing.T, cfg sandbox.Config) *rig {
	t.Helper()
	r := &rig{T: t, db: pgtest.Migrated(t)}
	var inner http.Handler
	r.hook = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		recorder := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		inner.ServeHTTP(recorder, q)
		r.answered.Store(int64(recorder.status))
	}))
	t.Cleanup(r.hook.Close)
	cfg.Meters = []sandbox.Meter{{EventName: "tokens"}}
	cfg.Customers = []sandbox.Customer{{ID: "cus_known"}}
	cfg.Webhooks = append(cfg.Webhooks, sandbox.Webhook{URL: r.url(), Secret: secret})
	r.sandbox = sandbox.New(cfg)
	api := httptest.NewServer(r.sandbox.Handler())
	t.Cleanup(api.Close)
	t.Cleanup(r.sandbox.Close)
	e, err := stripe.New(stripe.Config{Key: "sk_test_weir", URL: api.URL, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	r.exporter = e
	r.store = machine.NewStore(r.db.Pool(), machine.DefaultPolicy())
	inner = Handler(r.db.Pool(), []Lane{{"stripe", e, secret}}, quiet)
	return r
}

func (r *rig) url() string { return r.hook.URL + "/webhooks/stripe/stripe" }

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// claim enqueues an item for the customer and takes it.
func (r *rig) claim(customer string, n int) machine.Item {
	r.Helper()
	var id int64
	err := r.db.Pool().QueryRow(r.Context(), `SELECT weir.enqueue('t', $1, 'test', '1', $2::jsonb)`, fmt.Sprintf("%s-%d", customer, n),
		fmt.Sprintf(`{"customer": %q, "meter": "tokens", "value": 1, "timestamp": %d}`, customer, time.Now().Unix()-10)).Scan(&id)
	if err != nil {
		r.Fatal(err)
	}
	items, err := r.store.Claim(r.Context(), machine.Claimer{Exporter: "stripe", Owner: "test"}, []int64{id})
	if err != nil || len(items) != 1 {
		r.Fatalf("claim: %d, %v", len(items), err)
	}
	return items[0]
}

func (r *rig) deliver(item machine.Item) {
	r.Helper()
	if o := r.exporter.Deliver(r.Context(), []machine.Item{item}); o[0].Kind != exporter.Accepted {
		r.Fatalf("deliver: %+v", o[0])
	}
}

func (r *rig) accept(item machine.Item) {
	r.Helper()
	ids, err := r.store.Accept(r.Context(), []machine.Acceptance{{Ref: item.Ref()}})
	if err != nil || len(ids) != 1 {
		r.Fatalf("accept: %v, %v", ids, err)
	}
}

// send takes an item to acceptance.
func (r *rig) send(customer string, n int) machine.Item {
	r.Helper()
	item := r.claim(customer, n)
	r.deliver(item)
	r.accept(item)
	return item
}

func (r *rig) state(item machine.Item, want machine.State) {
	r.Helper()
	sights, err := r.store.Look(r.Context(), []int64{item.ID})
	if err != nil || len(sights) != 1 || sights[0].State != want {
		r.Errorf("item %d: want %s, got %+v, %v", item.ID, want, sights, err)
	}
}

func (r *rig) count(sql string) (n int) {
	r.Helper()
	if err := r.db.Pool().QueryRow(r.Context(), sql).Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}

// An item that Stripe accepts and refuses later is rejected by a signed webhook; the others stay.
func TestAsynchronousRefusal(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	good, bad := r.send("cus_known", 1), r.send("cus_gone", 1)
	if err := r.sandbox.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.state(good, machine.Accepted)
	r.state(bad, machine.Rejected)
	var cause string
	if err := r.db.Pool().QueryRow(t.Context(), `SELECT last_error FROM weir.deliveries WHERE state = 'rejected'`).Scan(&cause); err != nil ||
		!strings.HasPrefix(cause, "meter_event_customer_not_found: ") {
		t.Errorf("last_error %q, %v", cause, err)
	}
	if n := r.count(`SELECT count(*) FROM weir.suspects`); n != 0 {
		t.Errorf("%d suspects", n)
	}
}

// What a report counts and doesn't name is noted; what it names and weir doesn't know to be accepted, too.
func TestSuspects(t *testing.T) {
	r := newRig(t, sandbox.Config{ReportSamples: 1})
	early := r.claim("cus_gone", 1)
	r.deliver(early)
	others := []machine.Item{r.send("cus_gone", 2), r.send("cus_gone", 3)}
	if err := r.sandbox.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.state(early, machine.Leased)
	for _, item := range others {
		r.state(item, machine.Accepted)
	}
	if n := r.count(`SELECT count(*) FROM weir.suspects WHERE identity IS NOT NULL AND events = 1`); n != 1 {
		t.Errorf("%d named suspects", n)
	}
	if n := r.count(`SELECT count(*) FROM weir.suspects WHERE identity IS NULL AND events = 2 AND meter <> '' AND from_at < to_at`); n != 1 {
		t.Errorf("%d unnamed suspects", n)
	}
}

// A report is repeated until it is acknowledged, and applied once.
func TestReplays(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	bad := r.send("cus_gone", 1)
	r.db.Exec(t, `ALTER TABLE weir.inbox RENAME TO hidden`) // the database fails
	if err := r.sandbox.Publish(t.Context()); err == nil {
		t.Fatal("a report was acknowledged that was not written down")
	}
	if got := r.answered.Load(); got != http.StatusServiceUnavailable {
		t.Errorf("status %d", got)
	}
	r.state(bad, machine.Accepted)
	r.db.Exec(t, `ALTER TABLE weir.hidden RENAME TO inbox`)
	if err := r.sandbox.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.state(bad, machine.Rejected)

	id := r.eventID()
	body := fmt.Sprintf(`{"id": %q, "type": %q, "livemode": false, "created": "2026-01-01T00:00:00Z"}`, id, stripe.ErrorReportType)
	for range 3 {
		if status, _ := r.post(body, sign(body, secret)); status != http.StatusOK {
			t.Errorf("replay: status %d", status)
		}
	}
	if n := r.count(`SELECT count(*) FROM weir.inbox`); n != 1 {
		t.Errorf("%d records", n)
	}
}

// eventID is the only report's.
func (r *rig) eventID() (id string) {
	r.Helper()
	if err := r.db.Pool().QueryRow(r.Context(), `SELECT max(message_id) FROM weir.inbox`).Scan(&id); err != nil {
		r.Fatal(err)
	}
	return id
}

func sign(body, with string) string {
	return sdk.GenerateTestSignedPayload(&sdk.UnsignedPayload{Payload: []byte(body), Secret: with}).Header
}

func (r *rig) post(body, signature string) (int, string) {
	r.Helper()
	return r.request(http.MethodPost, r.url(), body, signature)
}

func (r *rig) request(method, url, body, signature string) (int, string) {
	r.Helper()
	q, err := http.NewRequestWithContext(r.Context(), method, url, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if signature != "" {
		q.Header.Set("Stripe-Signature", signature)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		r.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// What isn't Stripe's, or can't be used, is refused or put aside, and changes nothing.
func TestRefusals(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	report := fmt.Sprintf(`{"id": "evt_test_none", "type": %q, "livemode": false, "created": "2026-01-01T00:00:00Z"}`, stripe.ErrorReportType)
	old := sdk.GenerateTestSignedPayload(&sdk.UnsignedPayload{Payload: []byte(report), Secret: secret, Timestamp: time.Now().Add(-time.Hour)}).Header
	tests := []struct {
		name, method, path, body, signature string
		want                                int
	}{
		{"no signature", "POST", "", report, "", 400},
		{"another secret", "POST", "", report, sign(report, "whsec_other"), 400},
		{"an empty secret", "POST", "", report, sign(report, ""), 400},
		{"another body", "POST", "", report + " ", sign(report, secret), 400},
		{"an old signature", "POST", "", report, old, 400},
		{"GET", "GET", "", "", "", 405},
		{"another lane", "POST", "x", report, sign(report, secret), 404},
		{"no JSON", "POST", "", "{", sign("{", secret), 400},
		{"null", "POST", "", "null", sign("null", secret), 400},
		{"null fields", "POST", "", `{"id": null, "type": null, "related_object": null}`, sign(`{"id": null, "type": null, "related_object": null}`, secret), 400},
		{"another type", "POST", "", `{"id": "evt_1", "type": "v2.core.x"}`, sign(`{"id": "evt_1", "type": "v2.core.x"}`, secret), 200},
		{"the other mode", "POST", "", strings.Replace(report, "false", "true", 1), sign(strings.Replace(report, "false", "true", 1), secret), 200},
		{"unknown to Stripe", "POST", "", report, sign(report, secret), 502},
		{"huge", "POST", "", strings.Repeat("x", maxBody+1), "", 413},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, text := r.request(tt.method, r.url()+tt.path, tt.body, tt.signature)
			if got != tt.want {
				t.Errorf("status %d, want %d", got, tt.want)
			}
			if strings.Contains(text, "evt_") || strings.Contains(text, "stripe:") {
				t.Errorf("the answer tells too much: %s", text)
			}
		})
	}
	if n := r.count(`SELECT count(*) FROM weir.inbox`); n != 0 {
		t.Errorf("%d records", n)
	}
}

// A body that doesn't come to its end is given up.
func TestSlowBody(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(-time.Second))
		_, status, err := readBefore(w, r)
		if err == nil {
			t.Error("want an error")
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	answer := make([]byte, 64)
	n, _ := conn.Read(answer)
	if !bytes.Contains(answer[:n], []byte("408")) {
		t.Errorf("got %q", answer[:n])
	}
}

// Reports with parts missing are read as far as they go, and don't panic, as the SDK's reading of them does.
func TestNullFields(t *testing.T) {
	for _, body := range []string{
		`{"id": "evt_1", "type": "v1.billing.meter.error_report_triggered", "data": null, "related_object": null}`,
		`{"id": "evt_1", "type": "v1.billing.meter.no_meter_found"}`,
		`{"id": "evt_1", "type": "v1.billing.meter.error_report_triggered", "data": {"reason": null, "validation_start": null}}`,
		`{"id": "evt_1", "type": "v1.billing.meter.error_report_triggered", "data": {"reason": {"error_count": "3", "error_types": null}}}`,
		`{"id": "evt_1", "type": "v1.billing.meter.error_report_triggered", "data": {"reason": {"error_count": 3, "error_types": [null, {"code": null, "sample_errors": [null, {"request": null}]}]}}}`,
	} {
		db := pgtest.Migrated(t)
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }))
		e, err := stripe.New(stripe.Config{Key: "sk_test_weir", URL: api.URL})
		if err != nil {
			t.Fatal(err)
		}
		h := Handler(db.Pool(), []Lane{{"stripe", e, secret}}, quiet)
		thin := `{"id": "evt_1", "type": "v1.billing.meter.error_report_triggered", "created": "2026-01-01T00:00:00Z"}`
		q := httptest.NewRequest(http.MethodPost, "/webhooks/stripe/stripe", strings.NewReader(thin))
		q.Header.Set("Stripe-Signature", sign(thin, secret))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		var suspects int
		if err := db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM weir.suspects`).Scan(&suspects); err != nil {
			t.Fatal(err)
		}
		if w.Code != http.StatusOK || suspects != 1 {
			t.Errorf("status %d, %d suspects: %s", w.Code, suspects, body)
		}
		api.Close()
	}
}

// A report names the identifier or the Idempotency-Key, which begins with it; what it says to be a duplicate is counted.
func TestNames(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	byKey, old, twice := r.send("cus_known", 1), r.send("cus_known", 2), r.send("cus_known", 3)
	sample := func(request string) string { return `{"error_message": "m", "request": ` + request + `}` }
	data := fmt.Sprintf(`{"id": "evt_2", "type": "v1.billing.meter.error_report_triggered", "data": {"reason": {"error_count": 4, "error_types": [
		{"code": "archived_meter", "error_count": 3, "sample_errors": [%s, %s, %s]},
		{"code": "duplicate_meter_event", "error_count": 1, "sample_errors": [%s]}]}}}`,
		sample(fmt.Sprintf(`{"identifier": "%s-17"}`, byKey.Identifier())),
		sample(fmt.Sprintf(`{"id": "req_1", "idempotency_key": "%s-3"}`, old.Identifier())),
		sample(`{"identifier": "somebody else's"}`),
		sample(fmt.Sprintf(`{"identifier": %q}`, twice.Identifier())))
	if !json.Valid([]byte(data)) {
		t.Fatal(data)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, data) }))
	defer api.Close()
	e, err := stripe.New(stripe.Config{Key: "sk_test_weir", URL: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	report, err := e.ErrorReport(t.Context(), "evt_2")
	if err != nil {
		t.Fatal(err)
	}
	out, err := Apply(t.Context(), r.db.Pool(), "stripe", report, quiet)
	if err != nil || !out.First || len(out.Rejected) != 2 || out.Suspects != 0 {
		t.Errorf("got %+v, %v", out, err)
	}
	r.state(byKey, machine.Rejected)
	r.state(old, machine.Rejected)
	r.state(twice, machine.Accepted)
}

// Without webhooks, the reports are asked for.
func TestPoll(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	r.hook.Close() // nothing gets through
	p := &Poller{DB: r.db.Pool(), Lane: "stripe", Exporter: r.exporter, Every: time.Nanosecond, Logger: quiet}
	var bad []machine.Item
	for i := range 3 {
		bad = append(bad, r.send("cus_gone", i))
		if err := r.sandbox.Publish(t.Context()); err == nil {
			t.Fatal("a webhook got through")
		}
	}
	if made, err := p.Poll(t.Context(), 10); err != nil || made != 2 {
		t.Errorf("%d reads, %v", made, err)
	}
	for _, item := range bad {
		r.state(item, machine.Rejected)
	}
	if made, err := p.Poll(t.Context(), 10); err != nil || made != 2 {
		t.Errorf("again: %d reads, %v", made, err)
	}
	if made, err := p.Poll(t.Context(), 0); err != nil || made != 0 {
		t.Errorf("without reads: %d, %v", made, err)
	}
	p.Every = time.Hour
	if made, err := p.Poll(t.Context(), 10); err != nil || made != 0 {
		t.Errorf("too soon: %d, %v", made, err)
	}
	if n := r.count(`SELECT count(*) FROM weir.inbox`); n != 3 {
		t.Errorf("%d records", n)
	}
}

// Deliveries of one report at the same time are applied once, and all acknowledged.
func TestDeliveriesAtOnce(t *testing.T) {
	r := newRig(t, sandbox.Config{})
	r.send("cus_gone", 1)
	if err := r.sandbox.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := r.eventID()
	r.db.Exec(t, `DELETE FROM weir.inbox`)
	r.db.Exec(t, `DELETE FROM weir.suspects`)
	early := r.claim("cus_known", 1)
	body := fmt.Sprintf(`{"id": %q, "type": %q, "livemode": false, "created": "2026-01-01T00:00:00Z"}`, id, stripe.ErrorReportType)
	signature := sign(body, secret)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if status, _ := r.post(body, signature); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		})
	}
	all.Wait()
	if n := r.count(`SELECT count(*) FROM weir.inbox`); n != 1 {
		t.Errorf("%d records", n)
	}
	r.state(early, machine.Leased)
}
