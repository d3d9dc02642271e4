package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/outbox"
)

// stage puts one item into state, along the machine's own edges, and answers its id.
func stage(t *testing.T, db *pgtest.DB, ref string, state machine.State) int64 {
	t.Helper()
	ctx := t.Context()
	it := outbox.Item{TenantKey: "t1", SubjectRef: ref, Mode: "test", MappingVersion: "1", Payload: map[string]string{"customer": "cus_1", "value": "1"}}
	if state == machine.Quarantined {
		it.QuarantineReason = "unknown_meter"
	}
	tx, err := db.Pool().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := outbox.Enqueue(ctx, tx, it)
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	id := receipts[0].ID
	if state == machine.Pending || state == machine.Quarantined {
		return id
	}
	s := machine.NewStore(db.Pool(), machine.DefaultPolicy())
	claimed, err := s.Claim(ctx, machine.Claimer{Exporter: "stripe", Owner: "w1"}, []int64{id})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claim %d: got %v, %v", id, claimed, err)
	}
	claim, cause := claimed[0].Ref(), machine.Cause{Code: "http_500", Detail: "no answer"}
	switch state {
	case machine.Accepted, machine.Confirmed:
		_, err = s.Accept(ctx, []machine.Acceptance{{Ref: claim}})
		if state == machine.Confirmed && err == nil {
			_, err = s.Confirm(ctx, []int64{id})
		}
	case machine.Uncertain:
		_, err = s.Doubt(ctx, []machine.Failure{{Ref: claim, Cause: cause}})
	case machine.Rejected:
		_, err = s.Reject(ctx, []machine.Failure{{Ref: claim, Cause: cause}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// stateOf is where an item stands.
func stateOf(t *testing.T, db *pgtest.DB, id int64) (state machine.State) {
	t.Helper()
	if err := db.Pool().QueryRow(t.Context(), `SELECT state FROM weir.deliveries WHERE id = $1`, id).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

func TestList(t *testing.T) {
	c, db := onDatabase(t)
	c.run("list").wants(exitOK, "No item matches.")
	for _, state := range machine.States {
		stage(t, db, "ref-"+string(state), state)
	}
	all := c.run("list").wants(exitOK, "ID", "ref-pending", "ref-leased", "ref-accepted", "ref-confirmed", "http_500: no answer", "unknown_meter")
	if strings.Index(all.stdout, "ref-quarantined") > strings.Index(all.stdout, "ref-pending") {
		t.Error("want the newest first")
	}
	for _, tt := range []struct {
		args string
		want string // the states that are listed
	}{
		{"--attention", "uncertain rejected quarantined"},
		{"--attention --exporter other", ""},
		{"--state pending", "pending"},
		{"--state leased,accepted", "leased accepted"},
		{"--state confirmed --exporter stripe --tenant t1 --mapping-version 1", "confirmed"},
		{"--quarantine-reason unknown_meter", "quarantined"},
		{"--error http_5", "uncertain rejected"},
		{"--tenant t2", ""},
		{"--after 6", "quarantined"},
		{"--before 2", "pending"},
		{"--oldest --limit 2", "pending leased"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			c.t = t
			r := c.run(append([]string{"list"}, strings.Fields(tt.args)...)...).wants(exitOK)
			for _, state := range machine.States {
				want := strings.Contains(" "+tt.want+" ", " "+string(state)+" ")
				if got := strings.Contains(r.stdout, "ref-"+string(state)); got != want {
					t.Errorf("%s listed: %t, want %t", state, got, want)
				}
			}
		})
	}
	c.t = t
	c.run("list", "--limit", "3").wants(exitOK, "There are more: add --before 5")
	c.run("list", "--limit", "0").wants(exitUsage)
	c.run("list", "--state", "pendign").wants(exitUsage, "did you mean pending?")
	lines := strings.Split(strings.TrimSpace(c.run("list", "--json", "--limit", "4").wants(exitOK).stdout), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], `{"id":7,"state":"quarantined"`) {
		t.Errorf("got %d lines, the first %s", len(lines), lines[0])
	}
}

func TestListWithoutSchema(t *testing.T) {
	c := newCLI(t, "WEIR_DATABASE_URL="+pgtest.New(t).URL())
	c.run("list").wants(exitFailed, "run weir migrate up")
}

// What comes from outside can't move the cursor or hide a line.
func TestListEscapes(t *testing.T) {
	c, db := onDatabase(t)
	stage(t, db, "a\x1b[2Jb\nc", machine.Pending)
	r := c.run("list").wants(exitOK)
	r2 := c.run("show", "1").wants(exitOK)
	if strings.Contains(r.stdout+r2.stdout, "\x1b") || strings.Contains(r.stdout, "b\nc") {
		t.Errorf("got %q", r.stdout)
	}
}

func TestShow(t *testing.T) {
	c, db := onDatabase(t)
	wants := map[machine.State][]string{
		machine.Pending:     {"the relay sends it", "weir status"},
		machine.Leased:      {"held by", "w1", "a relay is sending it"},
		machine.Accepted:    {"accepted", "the provider has taken it"},
		machine.Confirmed:   {"found in the provider's books"},
		machine.Uncertain:   {"last error", "http_500: no answer", "weir recover 5 --as accepted", "--as pending", "can't be billed twice"},
		machine.Rejected:    {"weir abandon 6 --reason"},
		machine.Quarantined: {"quarantined for", "unknown_meter", "weir requeue 7 --reason", "weir abandon 7"},
	}
	for _, state := range machine.States {
		id := stage(t, db, "ref-"+string(state), state)
		name := outbox.Identifier(outbox.Item{TenantKey: "t1", SubjectRef: "ref-" + string(state), Mode: "test", MappingVersion: "1"})
		r := c.run("show", name).wants(exitOK, wants[state]...)
		r.wants(exitOK, name, `"customer": "cus_1"`)
		if stateOf(t, db, id) != state {
			t.Errorf("show moved the item")
		}
	}
	c.run("requeue", "7", "--yes", "--actor", "ann", "--reason", "meter made").wants(exitOK)
	c.run("show", "7").wants(exitOK, "operations", "ann", "requeue", "quarantined → pending", "meter made")
	var got struct {
		ID         int64
		State      string
		Operations []operation
		Next       []string
	}
	c.run("show", "7", "--json").json(&got)
	if got.ID != 7 || got.State != "pending" || len(got.Operations) != 1 || len(got.Next) == 0 {
		t.Errorf("got %+v", got)
	}
	c.run("show", "99").wants(exitFailed, "no such item")
	c.run("show", "weir_"+strings.Repeat("0", 64)).wants(exitFailed, "no such item")
	c.run("show", "x").wants(exitUsage, "neither an id nor an identifier")
}

// An old doubt is dangerous to send again, and show says so.
func TestNextWarnsAfterADay(t *testing.T) {
	now := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	for hours, want := range map[int]string{1: "for 23h0m more", 30: "WARNING: the first attempt was 1d6h ago"} {
		first := now.Add(-time.Duration(hours) * time.Hour)
		it := &item{ID: 1, State: machine.Uncertain, FirstAttemptAt: &first, Now: now}
		if got := strings.Join(it.next(), "\n"); !strings.Contains(got, want) {
			t.Errorf("%d hours: got %s, want %q", hours, got, want)
		}
	}
	when := now
	if got := (&item{State: machine.Rejected, AbandonedAt: &when}).next(); !strings.Contains(got[0], "abandoned") {
		t.Errorf("got %v", got)
	}
	if got := (&item{State: machine.Pending, NextAttemptAt: now.Add(90 * time.Second), Now: now}).next(); !strings.Contains(got[0], "in 1m30s") {
		t.Errorf("got %v", got)
	}
}
