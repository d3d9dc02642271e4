package machine

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCause(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for _, tt := range []struct {
		cause Cause
		want  string
	}{
		{Cause{}, "unknown"},
		{Cause{Code: "http_503"}, "http_503"},
		{Cause{Code: "http_503", Detail: "try later"}, "http_503: try later"},
		{Cause{Detail: "no code"}, "unknown: no code"},
		{Cause{Code: "  \x00 ", Detail: " \n "}, "unknown"},
		{Cause{Code: "a", Detail: "one\r\ntwo\x00three\u2028four"}, "a: one  two three four"},
		{Cause{Code: "a", Detail: "\xff\xfe"}, "a: �"},
		{Cause{Code: "a", Detail: strings.Repeat("\n", 500) + "what matters"}, "a: what matters"},
		{Cause{Code: "a", Detail: "\u202etxt.exe\x1b[2J"}, "a: txt.exe [2J"},
		{Cause{Code: long, Detail: long}, strings.Repeat("é", 60) + ": " + strings.Repeat("é", 200)},
	} {
		if got := tt.cause.String(); got != tt.want {
			t.Errorf("%q: want %q, got %q", tt.cause, tt.want, got)
		}
	}
}

// lineError says what is wrong with s as a cause: it must fit the column with the longest prefix before it.
func lineError(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("empty")
	case !utf8.ValidString(s):
		return fmt.Errorf("not UTF-8")
	case utf8.RuneCountInString("attempts exhausted: "+s) > 300:
		return fmt.Errorf("%d characters", utf8.RuneCountInString(s))
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("not one printable line")
	}
	return nil
}

func FuzzCause(f *testing.F) {
	f.Add("http_503", "try later")
	f.Add("", "")
	f.Add("\x00", "\xff\n\u2028")
	f.Add(strings.Repeat("界", 400), strings.Repeat("\U0001f600", 400))
	f.Fuzz(func(t *testing.T, code, detail string) {
		c := Cause{code, detail}
		if err := lineError(c.String()); err != nil {
			t.Errorf("%q %q: %v: %q", code, detail, err, c.String())
		}
		if again := (Cause{c.String(), ""}).String(); utf8.RuneCountInString(c.String()) <= maxCode && again != c.String() {
			t.Errorf("cleaning is not done at once: %q, then %q", c.String(), again)
		}
	})
}

// The worst that a provider can say fits the columns, also behind the longest prefix.
func TestCauseFitsItsColumns(t *testing.T) {
	worst := []Cause{
		{},
		{"\x00\n", "\x00"},
		{strings.Repeat("\U0001f600", 500), strings.Repeat("\xff界\n", 500)},
	}
	f := newFixture(t, Policy{Lease: 1e9, Base: 1, Cap: 1, Attempts: 1, Horizon: 3e9})
	for i, cause := range worst {
		held := f.claimed(f.enqueue(fmt.Sprint("held ", i)))
		if _, err := f.Quarantine(t.Context(), []Hold{{held.Ref(), cause, true}}); err != nil {
			t.Errorf("quarantine for %q: %v", cause, err)
		}
		if reason := f.row(held.ID).Reason; lineError(reason) != nil {
			t.Errorf("quarantine for %q: reason %q", cause, reason)
		}
		last := f.claimed(f.enqueue(fmt.Sprint("last ", i)))
		if got := f.postpone(last.Ref(), Postponement{Cause: cause}); got.State != Uncertain {
			t.Errorf("last retry for %q: want uncertain, got %s", cause, got.State)
		}
		if got := f.row(last.ID).LastError; got != "attempts exhausted: "+cause.String() {
			t.Errorf("last retry for %q: last_error %q", cause, got)
		}
	}
}

// One provider's odd name for an item must not fail the others of its batch.
func TestProviderRefFitsItsColumn(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	batch := []Acceptance{
		{f.claimed(f.enqueue("odd")).Ref(), "evt\x00\xff\n1"},
		{f.claimed(f.enqueue("long")).Ref(), strings.Repeat("é", 100_000)},
		{f.claimed(f.enqueue("plain")).Ref(), "evt_2"},
	}
	if ids, err := f.Accept(t.Context(), batch); err != nil || len(ids) != len(batch) {
		t.Fatalf("want %d accepted, got %v, %v", len(batch), ids, err)
	}
	for i, want := range []string{"evt � 1", strings.Repeat("é", 255), "evt_2"} {
		if got := f.row(batch[i].ID).ProviderRef; got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	silent := f.claimed(f.enqueue("silent")).Ref()
	f.acceptAll([]Ref{silent})
	var none bool
	if err := f.pool.QueryRow(t.Context(), `SELECT provider_ref IS NULL FROM weir.deliveries WHERE id = $1`, silent.ID).Scan(&none); err != nil || !none {
		t.Errorf("no name: want NULL, got %v, %v", none, err)
	}
}
