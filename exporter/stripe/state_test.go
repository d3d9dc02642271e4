package stripe

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// outboxOf is a database with a store, through which items go as a lane sends them.
type outboxOf struct {
	*testing.T
	db    *pgtest.DB
	store *machine.Store
}

func newOutbox(t *testing.T) *outboxOf {
	t.Helper()
	db := pgtest.Migrated(t)
	return &outboxOf{t, db, machine.NewStore(db.Pool(), machine.DefaultPolicy())}
}

// row is where an item stands: the state, and what says why.
type row struct {
	state    machine.State
	cause    string // quarantine_reason, else the code of last_error
	attempts int
	tried    bool          // first_attempt_at is set: the horizon runs
	wait     time.Duration // until it is due, for pending ones
}

// enqueue commits an item and answers its id.
func (o *outboxOf) enqueue(kind, payload string) (id int64) {
	o.Helper()
	err := o.db.Pool().QueryRow(o.Context(), `SELECT weir.enqueue('t', md5(random()::text), 'test', '1', $2::jsonb, subject_kind => $1)`, kind, payload).Scan(&id)
	if err != nil {
		o.Fatal(err)
	}
	return id
}

// attempt claims an item, sends it, and settles it by its outcome.
func (o *outboxOf) attempt(e exporter.Exporter, id int64) row {
	o.Helper()
	items, err := o.store.Claim(o.Context(), machine.Claimer{Exporter: "stripe", Owner: "test"}, []int64{id})
	if err != nil || len(items) != 1 {
		o.Fatalf("claim: %v, %v", items, err)
	}
	if err := settle(o.Context(), o.store, &items[0], e.Deliver(o.Context(), items)[0]); err != nil {
		o.Fatal(err)
	}
	return o.row(id)
}

// settle writes an outcome down, as a lane does.
func settle(ctx context.Context, s *machine.Store, item *machine.Item, o exporter.Outcome) (err error) {
	ref, cause := item.Ref(), machine.Cause{Code: o.Code, Detail: o.Detail}
	switch o.Kind {
	case exporter.Accepted:
		_, err = s.Accept(ctx, []machine.Acceptance{{Ref: ref, ProviderRef: o.Ref}})
	case exporter.Retry:
		delay := o.After
		if delay == 0 {
			delay = s.Policy().Backoff(item.Attempts)
		}
		_, err = s.Retry(ctx, []machine.Postponement{{Ref: ref, Cause: cause, Delay: delay, Cost: o.Cost, First: item.FirstAttempt}})
	case exporter.Uncertain:
		_, err = s.Doubt(ctx, []machine.Failure{{Ref: ref, Cause: cause}})
	case exporter.Rejected:
		_, err = s.Reject(ctx, []machine.Failure{{Ref: ref, Cause: cause}})
	case exporter.Quarantined:
		_, err = s.Quarantine(ctx, []machine.Hold{{Ref: ref, Cause: cause, First: item.FirstAttempt}})
	}
	return err
}

func (o *outboxOf) row(id int64) (r row) {
	o.Helper()
	var wait float64
	err := o.db.Pool().QueryRow(o.Context(), `
SELECT state, coalesce(quarantine_reason, split_part(coalesce(last_error, ''), ': ', CASE WHEN last_error ~ '(exhausted|reached): ' THEN 2 ELSE 1 END)), attempts,
       first_attempt_at IS NOT NULL, extract(epoch FROM next_attempt_at - clock_timestamp())::float8
  FROM weir.items WHERE id = $1`, id).Scan(&r.state, &r.cause, &r.attempts, &r.tried, &wait)
	if err != nil {
		o.Fatal(err)
	}
	r.wait = time.Duration(wait * float64(time.Second))
	return r
}

// later makes an item due, and its first attempt older by d, as if so much time had passed.
func (o *outboxOf) later(id int64, d time.Duration) {
	o.Helper()
	err := pgx.BeginFunc(o.Context(), o.db.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(o.Context(), `SET LOCAL session_replication_role = replica`); err != nil { // no transition
			return err
		}
		_, err := tx.Exec(o.Context(), `UPDATE weir.deliveries SET next_attempt_at = clock_timestamp(),
			first_attempt_at = first_attempt_at - $2 * interval '1 second' WHERE id = $1`, id, d.Seconds())
		return err
	})
	if err != nil {
		o.Fatal(err)
	}
}

func usageAt(at time.Time) string {
	return fmt.Sprintf(`{"customer":"cus_1","meter":"tokens","value":1,"timestamp":%d}`, at.Unix())
}

// What becomes of an item after each sort of answer: through HTTP, the rules and the machine, into the table.
func TestNextState(t *testing.T) {
	o := newOutbox(t)
	cancelIt := fmt.Sprintf(`{"meter":"tokens","cancel":"evt","received_at":%d}`, time.Now().Unix())
	cancelLate := fmt.Sprintf(`{"meter":"tokens","cancel":"evt","received_at":%d}`, time.Now().Add(-24*time.Hour).Unix())
	taken := answers(200, `{"object":"billing.meter_event","identifier":"IDENTIFIER"}`)
	cancelTaken := answers(200, `{"object":"billing.meter_event_adjustment","cancel":{"identifier":"evt"},"status":"pending"}`)
	expired := answers(401, `{"error":{"code":"billing_meter_event_session_expired","type":"temporary_session_expired","message":"expired"}}`)
	none := func(http.ResponseWriter, *http.Request) { t.Error("nothing may be sent") }
	pending := func(cause string, attempts int, tried bool, wait time.Duration) row {
		return row{machine.Pending, cause, attempts, tried, wait}
	}
	tests := []struct {
		name    string
		serve   http.HandlerFunc
		stream  bool
		kind    string
		payload string
		want    row
	}{
		// POST /v1/billing/meter_events
		{name: "taken", serve: taken, want: row{machine.Accepted, "", 1, true, 0}},
		{name: "duplicate", serve: answers(400, refusal("", "An event already exists with identifier IDENTIFIER.")), want: row{machine.Accepted, "", 1, true, 0}}, // lesson 25
		{name: "35 days, by Stripe's clock", serve: answers(400, refusal("", "The event timestamp cannot be more than 35 days in past.")),
			want: row{machine.Rejected, "timestamp_too_far_in_past", 1, true, 0}},
		{name: "35 days, by ours", serve: none, payload: usageAt(time.Now().Add(-36 * 24 * time.Hour)),
			want: row{machine.Quarantined, "timestamp_window", 0, false, 0}},
		{name: "no active meter", serve: answers(400, refusal("", `No active meter found for event name "tokens"`)),
			want: row{machine.Quarantined, "meter_inactive", 0, false, 0}},
		{name: "digits, by Stripe's rule", serve: answers(400, refusal("", "The value in the event payload can have at most 12 digits. Received 1.")),
			want: row{machine.Rejected, "invalid_value", 1, true, 0}},
		{name: "no such customer", serve: answers(400, refusal("resource_missing", "No such customer: 'cus_1'")),
			want: row{machine.Quarantined, "customer_not_found", 0, false, 0}},
		{name: "refused in other words", serve: answers(400, refusal("", "Something new.")), want: row{machine.Quarantined, "http_400", 0, false, 0}},
		{name: "409", serve: answers(409, refusal("", "concurrent requests")), want: pending("http_409", 0, true, 5*time.Second)},
		{name: "429", serve: answers(429, refusal("rate_limit", "slow down"), "Retry-After", "60"), want: pending("rate_limit", 0, false, time.Minute)},
		{name: "429 without a time", serve: answers(429, refusal("rate_limit", "slow down")), want: pending("rate_limit", 0, false, 30*time.Second)},
		{name: "lock timeout", serve: answers(429, refusal("lock_timeout", "busy")), want: pending("lock_timeout", 0, false, 5*time.Second)},
		{name: "500", serve: answers(500, refusal("", "oops")), want: pending("http_500", 1, true, 5*time.Second)},
		{name: "503 Retry-After", serve: answers(503, refusal("", "down"), "Retry-After", "120"), want: pending("http_503", 1, true, 2*time.Minute)},
		{name: "502 of a proxy", serve: answers(502, html), want: pending("http_502", 1, true, 5*time.Second)},
		{name: "200 that can't be read", serve: answers(200, ""), want: pending("unreadable", 1, true, 5*time.Second)},
		{name: "401", serve: answers(401, refusal("", "Invalid API Key")), want: pending("http_401", 0, false, 5*time.Second)},
		{name: "answer lost", serve: cuts("", true), want: pending("connection_lost", 1, true, 5*time.Second)},
		{name: "5 minutes, by Stripe's clock", serve: answers(400, refusal("", "cannot be more than 5 minutes in the future")), want: pending("timestamp_in_future", 1, true, time.Minute)},
		{name: "before its time, by ours", serve: none, payload: usageAt(time.Now().Add(time.Hour)), want: pending("timestamp_ahead", 0, false, 56*time.Minute)},

		// The stream
		{name: "batch received", stream: true, serve: answers(200, `{}`), want: row{machine.Accepted, "", 1, true, 0}},
		{name: "batch answered by nothing", stream: true, serve: answers(200, ``), want: pending("unreadable", 1, true, 5*time.Second)},
		{name: "batch refused", stream: true, serve: answers(400, refusal("payload_invalid", "odd")), want: row{machine.Quarantined, "payload_invalid", 0, false, 0}},
		{name: "batch limited", stream: true, serve: answers(429, refusal("rate_limit", "slow down"), "Retry-After", "60"), want: pending("rate_limit", 0, false, time.Minute)},
		{name: "batch lost", stream: true, serve: cuts("", true), want: pending("connection_lost", 1, true, 5*time.Second)},
		{name: "session never good", stream: true, serve: expired, want: pending("billing_meter_event_session_expired", 0, false, 5*time.Second)},

		// POST /v1/billing/meter_event_adjustments
		{name: "cancelled", kind: adjustment, payload: cancelIt, serve: cancelTaken, want: row{machine.Accepted, "", 1, true, 0}},
		{name: "cancelled before", kind: adjustment, payload: cancelIt, serve: answers(400, refusal("", "The event has already been cancelled.")), want: row{machine.Accepted, "", 1, true, 0}},
		{name: "cancelled too late, by ours", kind: adjustment, payload: cancelLate, serve: none, want: row{machine.Quarantined, "adjustment_window", 0, false, 0}},
		{name: "cancelled too late, by Stripe's", kind: adjustment, payload: cancelIt, serve: answers(400, refusal("", "more than 24 hours ago")),
			want: row{machine.Quarantined, "adjustment_window", 0, false, 0}},
		{name: "cancellation lost", kind: adjustment, payload: cancelIt, serve: cuts("", true), want: pending("connection_lost", 1, true, 5*time.Second)},
		{name: "cancellations limited", kind: adjustment, payload: cancelIt, serve: answers(429, refusal("rate_limit", "slow down")), want: pending("rate_limit", 0, false, 30*time.Second)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := &outboxOf{t, o.db, o.store}
			serve := tt.serve
			if tt.stream {
				serve = streamed(tt.serve)
			}
			e := newExporter(t, newServer(t, serve).URL, func(c *Config) { c.Stream = tt.stream })
			if tt.kind == "" {
				tt.kind = "usage"
			}
			if tt.payload == "" {
				tt.payload = usageAt(time.Now())
			}
			got := o.attempt(e.Sender(), o.enqueue(tt.kind, tt.payload))
			if tt.want.state == machine.Pending && (got.wait < tt.want.wait-2*time.Second || got.wait > tt.want.wait+tt.want.wait/4) {
				t.Errorf("due in %v, want %v and up to a quarter", got.wait, tt.want.wait)
			}
			got.wait = tt.want.wait
			if got != tt.want {
				t.Errorf("item is %+v, want %+v", got, tt.want)
			}
		})
	}
}

// What becomes of an item that one attempt has left open, after the next.
func TestNextStateAfterDoubt(t *testing.T) {
	lost := cuts("", true)
	refused := answers(400, refusal("", "Something new."))
	tests := []struct {
		name   string
		second http.HandlerFunc
		passes time.Duration // between the attempts
		want   machine.State
		cause  string
	}{
		{"taken after all", answers(400, refusal("", "An event already exists with identifier IDENTIFIER.")), time.Hour, machine.Accepted, ""},
		{"refused, which proves nothing", refused, time.Hour, machine.Uncertain, "http_400"},
		{"too late by Stripe's clock, which proves nothing", answers(400, refusal("", "cannot be more than 35 days in past")), time.Hour, machine.Uncertain, "timestamp_too_far_in_past"},
		{"lost again, at the horizon", lost, 23*time.Hour - 2*time.Second, machine.Uncertain, "connection_lost"},
		{"past the horizon: not sent", func(http.ResponseWriter, *http.Request) { t.Error("sent again past the horizon") }, 24 * time.Hour, machine.Uncertain, "past_horizon"},
	}
	o := newOutbox(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := &outboxOf{t, o.db, o.store}
			serve := lost
			server := newServer(t, func(w http.ResponseWriter, r *http.Request) { serve(w, r) })
			e := newExporter(t, server.URL, nil)
			id := o.enqueue("usage", usageAt(time.Now()))
			if got := o.attempt(e, id); got.state != machine.Pending {
				t.Fatalf("after the first attempt: %+v", got)
			}
			o.later(id, tt.passes)
			serve = tt.second
			if got := o.attempt(e, id); got.state != tt.want || got.cause != tt.cause {
				t.Errorf("item is %+v, want %s %s", got, tt.want, tt.cause)
			}
		})
	}
}

// A quarantined item is sent once its cause has been mended and a person has requeued it, under its own identifier.
func TestNextStateAfterRequeue(t *testing.T) {
	o := newOutbox(t)
	serve := answers(200, `{"object":"billing.meter_event","identifier":"IDENTIFIER"}`)
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) { serve(w, r) })
	id := o.enqueue("usage", fmt.Sprintf(`{"customer":"cus_1","feature":"chat","value":1,"timestamp":%d}`, time.Now().Unix()))
	mapping := func(version string, accepts ...string) *Exporter {
		return newExporter(t, server.URL, func(c *Config) {
			c.Mapping = Mapping{Version: version, Accepts: accepts, Features: map[string]Feature{"chat": {Meter: "tokens"}}}
		})
	}
	requeue := func() {
		t.Helper()
		if err := o.store.Requeue(t.Context(), id, "1", machine.Operator{Actor: "ada", Reason: "mended"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		e     *Exporter
		state machine.State
		cause string
	}{
		{newExporter(t, server.URL, nil), machine.Quarantined, "feature_unmapped"},
		{mapping("2"), machine.Quarantined, "mapping_changed"},
		{mapping("2", "1"), machine.Accepted, ""},
	} {
		if got := o.attempt(step.e, id); got.state != step.state || got.cause != step.cause {
			t.Fatalf("item is %+v, want %s %s", got, step.state, step.cause)
		}
		if step.state == machine.Quarantined {
			requeue()
		}
	}
}
