package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
)

// ledger is what the outbox knows of originals.
type ledger map[string]machine.Original

func (l ledger) Original(_ context.Context, identifier string) (machine.Original, error) {
	o, ok := l[identifier]
	if !ok {
		return o, fmt.Errorf("original: %w", machine.ErrNotFound)
	}
	if o.State == "" {
		return o, errors.New("connection lost")
	}
	return o, nil
}

// standing is an original of the test lane.
func standing(s machine.State, age time.Duration) machine.Original {
	return machine.Original{State: s, Exporter: "stripe", Mode: "test", Age: age}
}

// newCancel is an item that cancels the event with the identifier; more is further members of its payload.
func newCancel(ref, identifier, more string) machine.Item {
	item := newItem(ref)
	item.SubjectKind = adjustment
	item.Payload = json.RawMessage(`{"meter":"tokens","cancel":"` + identifier + `"` + more + `}`)
	return item
}

// Whether a correction may go out is decided by where its original stands, and by its age, not by the timestamp of the usage.
func TestOriginals(t *testing.T) {
	original := newItem("original")
	id := original.Identifier()
	usage := newItem("usage")
	usage.Payload = json.RawMessage(strings.Replace(string(payloadAt(time.Now())), "{", `{"original":"`+id+`",`, 1))
	vouched := usage
	vouched.Payload = json.RawMessage(strings.Replace(string(usage.Payload), "{", `{"original_state":"billed",`, 1))
	cancelIt := newCancel("c", id, "")
	elsewhere := standing(machine.Accepted, time.Hour)
	elsewhere.Exporter = "other"
	const foreign = "evt_of_the_former_reporter"
	since := func(d time.Duration) string {
		return `,"received_at":` + fmt.Sprint(time.Now().Add(-d).Unix())
	}
	tests := []struct {
		name  string
		known machine.Original // of original; its State "absent": not found, "": the database doesn't answer
		item  machine.Item
		kind  exporter.Kind // 0: sent
		code  string
	}{
		{"usage, accepted", standing(machine.Accepted, time.Hour), usage, 0, ""},
		{"usage, confirmed, old", standing(machine.Confirmed, 100*24*time.Hour), usage, 0, ""},
		{"usage, pending", standing(machine.Pending, 0), usage, exporter.Retry, "original_open"},
		{"usage, leased", standing(machine.Leased, 0), usage, exporter.Retry, "original_open"},
		{"usage, uncertain", standing(machine.Uncertain, time.Hour), usage, exporter.Retry, "original_uncertain"},
		{"usage, rejected", standing(machine.Rejected, time.Hour), usage, exporter.Quarantined, "original_ineligible"},
		{"usage, quarantined", standing(machine.Quarantined, 0), usage, exporter.Quarantined, "original_ineligible"},
		{"usage, another lane's", elsewhere, usage, exporter.Quarantined, "original_ineligible"},
		{"usage, gone", standing("absent", 0), usage, exporter.Quarantined, "original_ineligible"},
		{"usage, gone, vouched for", standing("absent", 0), vouched, 0, ""},
		{"usage, vouched for, but rejected", standing(machine.Rejected, 0), vouched, exporter.Quarantined, "original_ineligible"},
		{"usage, no database", machine.Original{}, usage, exporter.Retry, "original_unread"},
		{"cancel, accepted", standing(machine.Accepted, 22*time.Hour), cancelIt, 0, ""},
		{"cancel, too close to the end", standing(machine.Accepted, 23*time.Hour+time.Minute), cancelIt, exporter.Quarantined, "adjustment_window"},
		{"cancel, open", standing(machine.Leased, 0), cancelIt, exporter.Retry, "original_open"},
		{"cancel, rejected", standing(machine.Rejected, 0), cancelIt, exporter.Quarantined, "original_ineligible"},
		{"cancel, foreign", machine.Original{}, newCancel("c", foreign, since(22*time.Hour)), 0, ""},
		{"cancel, foreign, too late", machine.Original{}, newCancel("c", foreign, since(24*time.Hour)), exporter.Quarantined, "adjustment_window"},
		{"cancel, foreign, untold", machine.Original{}, newCancel("c", foreign, ""), exporter.Quarantined, "no_received_at"},
		{"cancel, the outbox knows better", standing(machine.Accepted, 25*time.Hour), newCancel("c", id, since(time.Hour)), exporter.Quarantined, "adjustment_window"},
		{"cancel, nothing named", machine.Original{}, newCancel("c", "", ""), exporter.Quarantined, "no_cancel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			known := ledger{id: tt.known}
			if tt.known.State == "absent" {
				delete(known, id)
			}
			e := newExporter(t, "", func(c *Config) { c.Originals = known })
			ev, held := e.admit(t.Context(), &tt.item)
			if held == nil {
				held = &exporter.Outcome{}
			}
			if held.Kind != tt.kind || held.Code != tt.code || (ev == nil) == (tt.kind == 0) && tt.item.SubjectKind != adjustment {
				t.Errorf("event %v, outcome %+v; want %v %q", ev, held, tt.kind, tt.code)
			}
			if held.Kind == exporter.Retry && (held.Cost != machine.Unsent || held.Signal != exporter.Unasked) {
				t.Errorf("outcome %+v: nothing was sent", held)
			}
		})
	}
	t.Run("cancel, a resend leaves the window to Stripe", func(t *testing.T) {
		e := newExporter(t, "", func(c *Config) { c.Originals = ledger{id: standing(machine.Accepted, 25*time.Hour)} })
		item := again(cancelIt)
		if _, held := e.admit(t.Context(), &item); held != nil {
			t.Errorf("held: %+v", held)
		}
	})
}

// Every answer to a cancellation that means something else than the same answer to an event, and what it means.
var cancelAnswerTests = []struct {
	name  string
	serve http.HandlerFunc
	rule  string
	want  want
}{
	{"pending", answers(200, `{"object":"billing.meter_event_adjustment","cancel":{"identifier":"evt"},"status":"pending"}`),
		"created", final(exporter.Accepted, "")},
	{"another's", answers(200, `{"object":"billing.meter_event_adjustment","cancel":{"identifier":"other"}}`),
		"success that can't be read: the next attempt learns whether it is one", retry(unreachable, machine.Counted, "unreadable", 0)},
	{"nobody's", answers(200, `{"object":"billing.meter_event_adjustment","cancel":null}`),
		"success that can't be read: the next attempt learns whether it is one", retry(unreachable, machine.Counted, "unreadable", 0)},
	{"already cancelled", answers(400, refusal("", "The event with identifier evt has already been cancelled.")),
		"cancelled earlier", final(exporter.Accepted, "cancelled_earlier")},
	{"already canceled", answers(400, refusal("", "This meter event is already canceled.")),
		"cancelled earlier", final(exporter.Accepted, "cancelled_earlier")},
	{"invoice finalized", answers(400, refusal("", "The invoice has already been finalized, so the event cannot be cancelled.")),
		"refused", final(exporter.Quarantined, "http_400")},
	{"a duplicate, which no cancellation can be", answers(400, refusal("duplicate_meter_event", "A meter event with a duplicate identifier has already been submitted.")),
		"refused", final(exporter.Quarantined, "duplicate_meter_event")},
	{"too late", answers(400, refusal("", "The event was received more than 24 hours ago and can no longer be cancelled.")),
		"received too long ago to be cancelled", final(exporter.Quarantined, "adjustment_window")},
	{"no such event", answers(400, refusal("", `No event with identifier evt was found for event name "tokens".`)),
		"no such event to cancel: it may not have been processed yet", final(exporter.Quarantined, "original_not_found")},
	{"429", answers(429, refusal("rate_limit", "Request rate limit exceeded."), "Stripe-Rate-Limited-Reason", "endpoint-rate"),
		"too many cancellations: their limit is another than that of events", retry(healthy, machine.Unsent, "rate_limit", 30*time.Second)},
	{"500", answers(500, refusal("", "An unknown error occurred")), "Stripe's trouble", retry(unreachable, machine.Counted, "http_500", 0)},
	{"lost", cuts("", true), "connection lost without an answer", retry(unreachable, machine.Counted, "connection_lost", 0)},
}

func TestCancelAnswers(t *testing.T) {
	for _, tt := range cancelAnswerTests {
		t.Run(tt.name, func(t *testing.T) {
			item := newCancel(tt.name, "evt", `,"received_at":`+fmt.Sprint(time.Now().Unix()))
			o, by := exchange(t.Context(), t, newExporter(t, newServer(t, tt.serve).URL, nil), item)
			checkOutcome(t, o, by, tt.rule, tt.want)
		})
	}
}

func TestCancelWire(t *testing.T) {
	requests := make(chan *http.Request, 1)
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		answers(200, `{"object":"billing.meter_event_adjustment","cancel":{"identifier":"evt"},"livemode":false,"status":"pending","type":"cancel"}`)(w, r)
		requests <- r
	})
	e := newExporter(t, server.URL, func(c *Config) { c.Account, c.Connect = "acct_1", true })
	item := newCancel("wire", "evt", `,"received_at":"`+time.Now().Format(time.RFC3339)+`"`)
	item.Account = "acct_1"
	if o := deliverOne(t, e, item); o.Kind != exporter.Accepted {
		t.Fatalf("outcome %+v", o)
	}
	r := <-requests
	if r.Method != http.MethodPost || r.URL.Path != "/v1/billing/meter_event_adjustments" || r.Header.Get("Stripe-Account") != "acct_1" ||
		r.Header.Get("Idempotency-Key") != item.Identifier()+"-1" {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	if got := r.PostForm.Encode(); got != "cancel%5Bidentifier%5D=evt&event_name=tokens&type=cancel" {
		t.Errorf("form %s", got)
	}
}

// An event is billed, cancelled, and stays cancelled, whatever becomes of the answers.
func TestCancelInSandbox(t *testing.T) {
	for name, fault := range map[string]*sandbox.Action{
		"answered":       nil,
		"answer lost":    {Kind: sandbox.FaultReset, When: sandbox.After},
		"500, cancelled": {Kind: sandbox.FaultFail, When: sandbox.After}, // the new key meets "already cancelled"
		"500, not":       {Kind: sandbox.FaultFail, When: sandbox.Before},
	} {
		t.Run(name, func(t *testing.T) {
			s, base := newSandbox(t, sandbox.Config{})
			original := newItem("original")
			e := newExporter(t, base.cfg.URL, func(c *Config) {
				c.Originals = ledger{original.Identifier(): standing(machine.Accepted, time.Minute)}
				c.Transport = &http.Transport{DisableKeepAlives: true} // net/http repeats what a kept connection has lost
			})
			if o := deliverOne(t, e, original); o.Kind != exporter.Accepted {
				t.Fatalf("outcome %+v", o)
			}
			item := newCancel("cancel", original.Identifier(), "")
			if fault != nil {
				if _, err := s.AddFault(sandbox.Rule{Match: sandbox.Match{First: 1, PathPrefix: "/v1/billing/meter_event_adjustments"}, Action: *fault}); err != nil {
					t.Fatal(err)
				}
				if o := deliverOne(t, e, item); o.Kind != exporter.Retry || o.Cost != machine.Counted {
					t.Fatalf("first outcome %+v, want retry", o)
				}
				item = again(item)
			}
			if o := deliverOne(t, e, item); o.Kind != exporter.Accepted {
				t.Errorf("outcome %+v, want accepted", o)
			}
			if entry, _ := s.Entry(original.Identifier()); entry.Billed != 0 || !entry.Cancelled {
				t.Errorf("entry %+v, want it cancelled", entry)
			}
		})
	}
}

// A correction by a negative value is usage like any other.
func TestNegativeCorrection(t *testing.T) {
	s, e := newSandbox(t, sandbox.Config{})
	original, correction := newItem("original"), newItem("correction")
	e.cfg.Originals = ledger{original.Identifier(): standing(machine.Accepted, 20*24*time.Hour)}
	correction.Payload = json.RawMessage(fmt.Sprintf(`{"customer":"cus_1","meter":"tokens","value":"-2.50","timestamp":%d,"original":%q,"original_state":"billed"}`,
		time.Now().Unix(), original.Identifier()))
	for _, item := range []machine.Item{original, correction} {
		if o := deliverOne(t, e, item); o.Kind != exporter.Accepted {
			t.Fatalf("outcome %+v", o)
		}
	}
	if entry, _ := s.Entry(correction.Identifier()); entry.Value != "-2.5" || entry.Billed != 1 {
		t.Errorf("entry %+v, want -2.5 billed", entry)
	}
}

// Cancellations have a lower limit than events: they wait, and events don't.
func TestCancelsArePaced(t *testing.T) {
	e := newExporter(t, "", nil)
	item := newCancel("x", "evt", `,"received_at":`+fmt.Sprint(time.Now().Unix()))
	waits := 0
	for range 3 * cancelRate {
		if _, held := e.admit(t.Context(), &item); held != nil {
			if held.Code != "paced" || held.Cost != machine.Unsent || held.After < time.Second {
				t.Fatalf("outcome %+v", held)
			}
			waits++
		}
	}
	if waits < cancelRate {
		t.Errorf("%d of %d waited", waits, 3*cancelRate)
	}
}
