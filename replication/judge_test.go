package replication

import "testing"

// Every way in which a slot, a log and a ledger can disagree, and the one in which the stream goes on.
func TestJudge(t *testing.T) {
	here := Source{Slot: "weir", SystemID: "7", Timeline: 1}
	sound := SlotInfo{Exists: true, Confirmed: 100, ServerLSN: 300, WALStatus: "reserved"}
	with := func(set func(*SlotInfo)) SlotInfo { s := sound; set(&s); return s }
	tests := []struct {
		name   string
		slot   SlotInfo
		at     LSN    // the ledger's position
		before Source // what this process streamed before
		remake string
		want   string
	}{
		{name: "at the slot's position", slot: sound, at: 100},
		{name: "ahead of the slot's position", slot: sound, at: 200},
		{name: "the same log as before", slot: sound, at: 200, before: here},
		{name: "extended", slot: with(func(s *SlotInfo) { s.WALStatus = "extended" }), at: 100},
		{name: "unreserved can still be read", slot: with(func(s *SlotInfo) { s.WALStatus = "unreserved" }), at: 100},
		{name: "behind the slot's position", slot: sound, at: 99, want: ReasonAhead},
		{name: "slot half made", slot: with(func(s *SlotInfo) { s.Confirmed = 0 }), at: 100, want: ReasonAhead},
		{name: "at the log's end", slot: sound, at: 300},
		{name: "behind the log's end", slot: sound, at: 301, want: ReasonRewound},
		{name: "new here", want: ReasonFirst},
		{name: "slot missing", at: 100, want: ReasonMissing},
		{name: "no position", slot: sound, want: ReasonUncounted},
		{name: "lost", slot: with(func(s *SlotInfo) { s.WALStatus = "lost" }), at: 100, want: ReasonLost},
		{name: "invalidated", slot: with(func(s *SlotInfo) { s.Invalidation = "idle_timeout" }), at: 100, want: ReasonLost},
		{name: "another system", before: Source{"weir", "8", 1}, want: ReasonSystem},
		{name: "another timeline", slot: sound, before: Source{"weir", "7", 4}, want: ReasonTimeline},
		{name: "told so by the session before", slot: sound, at: 100, remake: ReasonPublication, want: ReasonPublication},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := New(Config{}, nil, nil)
			s.source, s.remake = test.before, test.remake
			if got := s.judge(here, test.slot, test.at); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
