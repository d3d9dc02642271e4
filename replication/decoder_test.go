package replication

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/machine"
)

var (
	due   = time.Date(2026, time.March, 1, 12, 0, 0, 500_000_000, time.UTC)
	lease = time.Date(2026, time.March, 1, 12, 2, 0, 0, time.UTC)
)

// lesson "TOAST": a value that the log leaves out is taken from the old row.
func TestDecode(t *testing.T) {
	item := Change{ID: 7, Exporter: "stripe", State: machine.Leased, From: machine.Pending, NextAttemptAt: due, LeaseExpiresAt: lease}
	as := func(kind Kind, x Change) []Change { x.Kind = kind; return []Change{x} }
	fresh := item
	fresh.State, fresh.From, fresh.LeaseExpiresAt = machine.Pending, machine.None, time.Time{}

	tests := []struct {
		name    string
		message raw
		want    []Change
	}{
		{"insert", insertMessage("7", "stripe", "pending", nil, dueText, nil), as(Insert, fresh)},
		{"update", updateMessage("7", "stripe", "leased", "pending", dueText, leaseText), as(Update, item)},
		{"update of the key", raw{'U'}.int32(oid).
			byte('K').tupleOf("6", nil, nil, nil, nil, nil).
			byte('N').tupleOf("7", "stripe", "leased", "pending", dueText, leaseText), as(Update, item)},
		{"update with the old row", raw{'U'}.int32(oid).
			byte('O').tupleOf("7", "stripe", "pending", nil, dueText, nil).
			byte('N').tupleOf("7", unchanged, "leased", "pending", unchanged, leaseText), as(Update, item)},
		{"delete by key", deleteMessage("7"), as(Delete, Change{ID: 7})},
		{"delete with the old row", raw{'D'}.int32(oid).byte('O').tupleOf("7", "stripe", "leased", "pending", dueText, leaseText), as(Delete, Change{ID: 7})},
		{"truncate", truncateMessage(oid), as(Truncate, Change{})},
		{"truncate among others", truncateMessage(foreign, oid), as(Truncate, Change{})},
		{"truncate of another table", truncateMessage(foreign), nil},
		{"announcement", logicalMessage(1, RemovedPrefix, `{"webhook": {"rejected": 2}, "stripe": {"accepted": 0, "confirmed": 9}}`),
			[]Change{
				{Kind: Removed, Exporter: "stripe", State: machine.Confirmed, Count: 9},
				{Kind: Removed, Exporter: "webhook", State: machine.Rejected, Count: 2},
			}},
		{"announcement outside of its transaction", logicalMessage(0, RemovedPrefix, `{"stripe": {"accepted": 1}}`), nil},
		{"message of somebody else", logicalMessage(1, "app.audit", "\x00\xff"), nil},
		{"insert into another table", raw{'I'}.int32(foreign).byte('N').tupleOf("what", "ever"), nil},
		{"type", raw{'Y'}.int32(16600).string("public").string("mood"), nil},
		{"origin", raw{'O'}.int64(0x1_0000_0000).string("elsewhere"), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, err := opened(t).decode(test.message)
			if err != nil {
				t.Fatal(err)
			}
			if len(e.changes) != len(test.want) || len(test.want) > 0 && !reflect.DeepEqual(e.changes, test.want) {
				t.Errorf("changes\n%+v, want\n%+v", e.changes, test.want)
			}
			if want := (len(test.want) > 0); (e.kind == changeEvent) != want {
				t.Errorf("kind %d", e.kind)
			}
		})
	}
}

func TestDecodeTransaction(t *testing.T) {
	d := newDecoder()
	e, err := d.decode(beginMessage())
	if err != nil || e.kind != beginEvent || !e.commit.Equal(commitTime) || !d.open {
		t.Errorf("begin: %+v, open %v, %v", e, d.open, err)
	}
	e, err = d.decode(commitMessage(0x2_0000_0000)) // lesson 5: the end, not the commit record's beginning
	if err != nil || e.kind != commitEvent || e.end != 0x2_0000_0000 || !e.commit.Equal(commitTime) || d.open {
		t.Errorf("commit: %+v, open %v, %v", e, d.open, err)
	}
}

// lesson 10: columns are found by name, anew whenever the server tells the table anew.
// lesson "schema change"
func TestDecodeAnotherColumnOrder(t *testing.T) {
	d := opened(t)
	must(t, d, relationMessage(oid, schema, table, "state", "added", "lease_expires_at", "id", "next_attempt_at", "exporter", "from_state"))
	e := must(t, d, insertMessage("pending", "whatever", nil, "7", dueText, "stripe", nil))
	want := Change{Kind: Insert, ID: 7, Exporter: "stripe", State: machine.Pending, NextAttemptAt: due}
	if len(e.changes) != 1 || e.changes[0] != want {
		t.Errorf("%+v, want %+v", e.changes, want)
	}
}

// Nothing that can't be read is skipped: each names what was needed and what came.
// lesson "TOAST": where it is in neither row that is an error, not an empty text. lesson "schema change": a missing column is one too.
func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name      string
		message   raw
		field     string
		need, got string
	}{
		{"empty", raw{}, "type", "1 bytes", "0"},
		{"unknown message", raw{'S', 0, 0}, "type", "one of", "'S'"},
		{"unknown state", insertMessage("7", "stripe", "paused", nil, dueText, nil), "state", "machine", `"paused"`},
		{"unknown from_state", updateMessage("7", "stripe", "leased", "paused", dueText, nil), "from_state", "machine", `"paused"`},
		{"id", insertMessage("seven", "stripe", "pending", nil, dueText, nil), "id", "bigint", `"seven"`},
		{"id beyond 64 bits", insertMessage("9223372036854775808", "stripe", "pending", nil, dueText, nil), "id", "bigint", "9223372036854775808"},
		{"another DateStyle", insertMessage("7", "stripe", "pending", nil, "01/03/2026 12:00:00 UTC", nil), "next_attempt_at", "ISO", "01/03/2026"},
		{"NULL state", insertMessage("7", "stripe", nil, nil, dueText, nil), "state", "a value", "NULL"},
		{"unchanged without the old row", updateMessage("7", unchanged, "leased", "pending", dueText, nil), "exporter", "a value", "unchanged"},
		{"binary value", insertMessage("7", binaryVal, "pending", nil, dueText, nil), "kind of value", "n, u or t", "'b'"},
		{"too few values", insertMessage("7", "stripe"), "number of values", "6", "2"},
		{"cut off", insertMessage("7", "stripe", "pending", nil, dueText, nil)[:30], "value", "bytes", ""},
		{"negative length", raw{'I'}.int32(oid).byte('N').int16(6).byte('t').int32(-1), "value", "-1 bytes", "0"},
		{"more than a row", insertMessage("7", "stripe", "pending", nil, dueText, nil).byte('!'), "end", "no more bytes", "1"},
		{"unknown relation", raw{'I'}.int32(99).byte('N'), "relation", "Relation message", "99"},
		{"missing column", relationMessage(oid, schema, table, "id", "exporter", "state", "from_state", "next_attempt_at"), "columns", "lease_expires_at", "no lease_expires_at"},
		{"second begin", beginMessage(), "order", "Commit before it", "open"},
		{"no row version", raw{'U'}.int32(oid).byte('X'), "kind of row version", "K, O or N", "'X'"},
		{"delete without a key", raw{'D'}.int32(oid).byte('N').tupleOf("7"), "kind of row version", "K or O", "'N'"},
		{"delete of nothing", raw{'D'}.int32(oid).byte('K').tupleOf(nil, nil, nil, nil, nil, nil), "id", "bigint", `""`},
		{"announcement in another shape", logicalMessage(1, RemovedPrefix, `[1]`), "content", "exporter", "[1]"},
		{"announcement of an unknown state", logicalMessage(1, RemovedPrefix, `{"stripe": {"gone": 1}}`), "state", "machine", `"gone"`},
		{"announcement of less than none", logicalMessage(1, RemovedPrefix, `{"stripe": {"accepted": -1}}`), "count", "0 or more", "-1"},
		{"announcement with a wrong length", logicalMessage(1, RemovedPrefix, `{}`)[:28], "content", "bytes", ""},
		{"string without its end", raw{'R'}.int32(oid).bytes("weir"), "schema", "zero byte", "4 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := opened(t).decode(test.message)
			var d *DecodeError
			if !errors.As(err, &d) {
				t.Fatalf("error %v, want a *DecodeError", err)
			}
			if d.Field != test.field || !strings.Contains(d.Need, test.need) || !strings.Contains(d.Got, test.got) {
				t.Errorf("%v\nwant field %q, need …%s…, got …%s…", d, test.field, test.need, test.got)
			}
		})
	}
}

func TestDecodeOutsideOfATransaction(t *testing.T) {
	for name, message := range map[string]raw{
		"insert": insertMessage("7", "stripe", "pending", nil, dueText, nil), "commit": commitMessage(0x200), "truncate": truncateMessage(oid),
	} {
		d := newDecoder()
		must(t, d, deliveriesRelation())
		var e *DecodeError
		if _, err := d.decode(message); !errors.As(err, &e) || e.Field != "order" {
			t.Errorf("%s outside of a transaction: %v, want a *DecodeError of the order", name, err)
		}
	}
}

// A change costs no memory. lesson 16
func TestDecodeAllocatesNothing(t *testing.T) {
	d := opened(t)
	messages := []raw{
		insertMessage("7", "stripe", "pending", nil, dueText, nil),
		updateMessage("7", "stripe", "leased", "pending", dueText, leaseText),
		deleteMessage("7"),
	}
	for _, message := range messages {
		must(t, d, message)
		if n := testing.AllocsPerRun(100, func() { must(t, d, message) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", messageName(message[0]), n)
		}
	}
}

// lesson "numeric and time": infinity is a time like others.
func TestParseTime(t *testing.T) {
	utc := func(y, mo, d, h, mi, s, us int) time.Time {
		return time.Date(y, time.Month(mo), d, h, mi, s, us*1000, time.UTC)
	}
	tests := []struct {
		text string
		want time.Time // zero: can't be read
	}{
		{"2026-03-01 12:00:00+00", utc(2026, 3, 1, 12, 0, 0, 0)},
		{"2026-03-01 12:00:00.000001+00", utc(2026, 3, 1, 12, 0, 0, 1)},
		{"2026-03-01 12:00:00.12+00", utc(2026, 3, 1, 12, 0, 0, 120000)},
		{"2026-03-01 12:00:00+05:30", utc(2026, 3, 1, 6, 30, 0, 0)},
		{"2026-03-01 00:00:00-08", utc(2026, 3, 1, 8, 0, 0, 0)},
		{"2026-03-01 00:00:00-00:01:15", utc(2026, 3, 1, 0, 1, 15, 0)},
		{"0001-01-01 00:00:00+00", ancient},
		{"0044-03-15 00:00:00+00 BC", ancient},
		{"-infinity", ancient},
		{"infinity", infinity},
		{"294276-12-31 23:59:59.999999+00", infinity},
		{"2026-03-01 12:00:00", time.Time{}},
		{"2026-13-01 12:00:00+00", time.Time{}},
		{"2026-03-01T12:00:00+00", time.Time{}},
		{"2026-03-01 12:00:00+00 AD", time.Time{}},
		{"Sun 01 Mar 12:00:00 2026 UTC", time.Time{}},
		{"", time.Time{}},
	}
	for _, test := range tests {
		got, ok := parseTime([]byte(test.text))
		if ok == test.want.IsZero() || !got.Equal(test.want) {
			t.Errorf("%q: %v, %v, want %v", test.text, got, ok, test.want)
		}
	}
}

// opened is a decoder inside of a transaction that knows two tables.
func opened(t testing.TB) *decoder {
	t.Helper()
	d := newDecoder()
	must(t, d, deliveriesRelation())
	must(t, d, relationMessage(foreign, "public", "orders", "a", "b"))
	must(t, d, beginMessage())
	return d
}

func must(t testing.TB, d *decoder, message raw) event {
	e, err := d.decode(message)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func FuzzDecode(f *testing.F) {
	for _, message := range []raw{
		beginMessage(), commitMessage(0x200), deliveriesRelation(), relationMessage(foreign, "public", "orders", "a"),
		insertMessage("7", "stripe", "pending", nil, dueText, nil),
		updateMessage("7", "stripe", "leased", "pending", dueText, leaseText),
		raw{'U'}.int32(oid).byte('O').tupleOf("7", "stripe", "pending", nil, dueText, nil).
			byte('N').tupleOf("7", unchanged, "leased", "pending", unchanged, leaseText),
		deleteMessage("7"), truncateMessage(oid, foreign),
		logicalMessage(1, RemovedPrefix, `{"stripe": {"accepted": 1}}`), logicalMessage(0, "x", ""),
		{'Y'}, {'O'}, {'S'}, {},
	} {
		f.Add([]byte(message))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := opened(t)
		e, err := d.decode(b)
		var broken *DecodeError
		if err != nil && (!errors.As(err, &broken) || broken.Field == "" || broken.Need == "") {
			t.Errorf("error without need: %v", err)
		}
		if err != nil && (e.kind != noEvent || len(e.changes) != 0) {
			t.Errorf("an error, and yet %+v", e)
		}
		for _, x := range e.changes {
			if x.Kind == 0 || (x.Kind == Insert || x.Kind == Update || x.Kind == Removed) && x.State.Index() < 0 {
				t.Errorf("half a change: %+v", x)
			}
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, text := range []string{dueText, "infinity", "0044-03-15 00:00:00+00 BC", "2026-03-01 00:00:00-00:01:15", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if at, ok := parseTime(b); ok && (at.IsZero() || at.After(infinity)) {
			t.Errorf("%q reads %v", b, at)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for name, message := range map[string]raw{
		"insert": insertMessage("1234567", "stripe", "pending", nil, "2026-03-01 12:00:00.123456+00", nil),
		"update": updateMessage("1234567", "stripe", "leased", "pending", "2026-03-01 12:00:00.123456+00", "2026-03-01 12:02:00.123456+00"),
		"delete": deleteMessage("1234567"),
	} {
		b.Run(name, func(b *testing.B) {
			d := opened(b)
			b.ReportAllocs()
			b.SetBytes(int64(len(message)))
			for b.Loop() {
				if _, err := d.decode(message); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
