package machine

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
)

func events() []Event {
	var all []Event
	for _, t := range Table {
		if !slices.Contains(all, t.Event) {
			all = append(all, t.Event)
		}
	}
	return all
}

func TestNextIsTheTable(t *testing.T) {
	edges := 0
	for _, from := range append([]State{None}, States[:]...) {
		for _, event := range append(events(), "no-event") {
			to, err := Next(from, event)
			i := slices.IndexFunc(Table, func(t Transition) bool { return t.From == from && t.Event == event })
			if i >= 0 {
				if edges++; err != nil || to != Table[i].To {
					t.Errorf("%s --%s-->: want %s, got %q, %v", from, event, Table[i].To, to, err)
				}
				continue
			}
			var refused *TransitionError
			if !errors.As(err, &refused) || refused.From != from || refused.Event != event || to != None {
				t.Errorf("%s --%s-->: want a *TransitionError that names both, got %q, %v", from, event, to, err)
			}
		}
	}
	if edges != len(Table) {
		t.Errorf("want one target for each state and event: %d rows, %d edges", len(Table), edges)
	}
}

func TestTransitionErrorNamesBothEnds(t *testing.T) {
	for want, err := range map[string]error{
		"machine: no transition accepted --claim-->": &TransitionError{Accepted, Claim},
		"machine: no transition none --claim-->":     &TransitionError{None, Claim},
	} {
		if err.Error() != want {
			t.Errorf("want %q, got %q", want, err)
		}
	}
}

// people lists the events that only a person causes.
func people() []Event { return []Event{RecoverAccept, RecoverRetry, RecoverReject, Requeue, Abandon} }

// Nothing automatic leaves these, and the cap's way out is doubt, not rejection.
func TestWhatOnlyPeopleMove(t *testing.T) {
	for _, tr := range Table {
		closed := slices.Contains([]State{Confirmed, Uncertain, Rejected, Quarantined}, tr.From)
		if closed != slices.Contains(people(), tr.Event) {
			t.Errorf("%s --%s--> %s: automatic and personal events are mixed up", tr.From, tr.Event, tr.To)
		}
		if tr.From == Confirmed || tr.From == Rejected && tr.To != Rejected {
			t.Errorf("%s --%s--> %s leaves a terminal state", tr.From, tr.Event, tr.To)
		}
	}
}

func TestStates(t *testing.T) {
	for i, s := range States {
		if s.Index() != i {
			t.Errorf("%s: want index %d, got %d", s, i, s.Index())
		}
		if want := s == Pending || s == Leased; s.Open() != want {
			t.Errorf("%s: want open %v", s, want)
		}
	}
	if i := None.Index(); i != -1 {
		t.Errorf("none: want index -1, got %d", i)
	}
}

// The schema's trigger has the table's edges, and no other.
func TestTriggerHasTheTablesEdges(t *testing.T) {
	var definition string
	err := pgtest.Migrated(t).Pool().QueryRow(t.Context(),
		`SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'transition'`).Scan(&definition)
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`[a-z]+>[a-z]+`).FindAllString(definition, -1)
	var want []string
	for _, tr := range Table {
		if tr.From != None {
			want = append(want, string(tr.From)+">"+string(tr.To))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("edges of the trigger:\n%v\nedges of the table:\n%v", got, want)
	}
}

// doc.go draws every edge: each event of people and providers is on the picture.
func TestDocDrawsTheEvents(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events() {
		word, _, _ := strings.Cut(string(event), "-")
		if !bytes.Contains(doc, []byte(word)) {
			t.Errorf("doc.go does not draw %s", event)
		}
	}
}

func TestREADMEQuotesTheMachine(t *testing.T) {
	const path, begin, end = "../README.md", "<!-- machine -->\n", "<!-- /machine -->"
	readme, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("there is no README yet")
	}
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(readme), begin)
	quote, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("README.md does not quote the machine: put %q and %q on lines of their own, then run go test ./machine -run README -update", strings.TrimSpace(begin), end)
	}
	if quote == String() {
		return
	}
	if !*update {
		t.Fatalf("README.md quotes another machine: run go test ./machine -run README -update. The machine is\n%s", String())
	}
	if err := os.WriteFile(path, []byte(before+begin+String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestStringIsATable(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(String(), "\n"), "\n")
	if want := len(Table) + 2; len(lines) != want {
		t.Fatalf("want %d lines, got %d", want, len(lines))
	}
	width := len([]rune(lines[0]))
	for i, line := range lines {
		if len([]rune(line)) != width || strings.Count(line, "|") != 7 {
			t.Errorf("line %d is out of line: %s", i+1, line)
		}
	}
	for i, tr := range Table[1:] {
		if rowNumber(t, tr.Row) < rowNumber(t, Table[i].Row) {
			t.Errorf("%s stands after %s", tr.Row, Table[i].Row)
		}
	}
}

func rowNumber(t *testing.T, row string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.Trim(row, "Tq"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
