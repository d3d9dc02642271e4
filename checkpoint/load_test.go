package checkpoint

import (
	"strings"
	"testing"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

func TestParseCounts(t *testing.T) {
	for _, c := range []struct{ name, text, err string }{
		{"empty", `{}`, ""},
		{"exporter without items", `{"stripe": {}}`, ""},
		{"all states", `{"s": {"pending": 1, "leased": 2, "accepted": 3, "confirmed": 4, "uncertain": 5, "rejected": 6, "quarantined": 7}}`, ""},
		{"unknown state", `{"stripe": {"pending": 1, "paused": 2}}`, `exporter "stripe" name the state "paused"`},
		{"no state", `{"stripe": {"": 2}}`, `the state ""`},
		{"not nested", `{"stripe": 2}`, "not {exporter: {state: items}}"},
		{"fraction", `{"stripe": {"pending": 1.5}}`, "not {exporter: {state: items}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseCounts(c.text)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if err != nil && !strings.Contains(err.Error(), "delete the row") {
				t.Errorf("%v doesn't say what to do", err)
			}
		})
	}
}

// Neither a state nor a counts that this weir doesn't know is taken for another.
func TestResumeRefusesWhatItDoesNotKnow(t *testing.T) {
	r := setUp(t)
	r.resumed(source, 100)
	r.exec(`UPDATE weir.checkpoints SET counts = '{"stripe": {"paused": 1}}'`)
	b := r.idle()
	if at, err := b.Resume(t.Context(), source); at != 0 || err == nil {
		t.Errorf("resume: %v, %v", at, err)
	}
	if _, ok := b.View(); ok {
		t.Error("the book has begun")
	}
}

func TestLoad(t *testing.T) {
	r := setUp(t)
	if _, found, err := Load(t.Context(), r.pool, "weir"); found || err != nil {
		t.Errorf("load of nothing: %v, %v", found, err)
	}
	want := replication.LSN(0x1_0000_000A) // lesson "LSN types": order across 4 GiB
	b := r.resumed(source, want-20)
	commit(b, want, insert)
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, found, err := Load(t.Context(), r.pool, "weir")
	if !found || err != nil || v.Source != source || v.At != want || v.Confirmed != want || v.Written.IsZero() || v.Inexact ||
		v.Counts.Get("stripe", machine.Pending) != 2 {
		t.Errorf("load: %+v, %v, %v", v, found, err)
	}
}

// The row's shape is what other tools read.
func TestShapeOfTheRow(t *testing.T) {
	r := setUp(t)
	b := r.resumed(source, 100)
	for i, s := range machine.States {
		for range i + 1 {
			commit(b, b.at+1, replication.Change{Kind: replication.Insert, Exporter: "hook", State: s})
		}
	}
	commit(b, 1000, replication.Change{Kind: replication.Update, Exporter: "stripe", From: machine.Pending, State: machine.Leased})
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got string
	err := r.pool.QueryRow(t.Context(), `
SELECT concat_ws(' ', slot, system_identifier, timeline, lsn, inexact, counts) FROM weir.checkpoints`).Scan(&got)
	const want = `weir 7 1 0/3E8 f {"hook": {"leased": 2, "pending": 1, "accepted": 3, "rejected": 6, "confirmed": 4, "uncertain": 5, "quarantined": 7}, "stripe": {"leased": 1}}`
	if err != nil || got != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}
