package checkpoint

import (
	"testing"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// A trail answers every position from its beginning on, and no other.
func TestTrail(t *testing.T) {
	counts := machine.Counts{}
	tr := trail{limit: 8, audits: 1}
	move := func(end replication.LSN, n int64) {
		tr.before(end, counts)
		counts.Add("stripe", machine.Pending, n)
		tr.add(step{end, "stripe", machine.Pending, n})
	}
	tr.cut(100)
	ahead := tr.ask(150, 100, counts)
	move(110, 1)
	move(150, 2) // ends at the mark: counts
	select {
	case <-ahead:
		t.Fatal("answered before the stream was past the position")
	default:
	}
	tr.before(151, counts) // a keepalive at 150
	if got := (<-ahead).Get("stripe", machine.Pending); got != 3 {
		t.Errorf("at 150: %d, want 3", got)
	}
	move(160, 4)
	move(160, 8) // two steps of one transaction
	for at, want := range map[replication.LSN]int64{100: 0, 109: 0, 110: 1, 149: 1, 150: 3, 159: 3, 160: 15} {
		if got := (<-tr.ask(at, 160, counts)).Get("stripe", machine.Pending); got != want {
			t.Errorf("at %d: %d, want %d", at, got, want)
		}
	}
	if _, ok := <-tr.ask(99, 160, counts); ok {
		t.Error("answered before its beginning")
	}
	for n := range replication.LSN(5) { // the fifth overflows, and forgets up to 160
		move(200+n, 16)
	}
	for at, answered := range map[replication.LSN]bool{159: false, 160: true, 204: true} {
		if _, ok := <-tr.ask(at, 204, counts); ok != answered {
			t.Errorf("at %d: answered %v", at, ok)
		}
	}
	if got := (<-tr.ask(160, 204, counts)).Get("stripe", machine.Pending); got != 15 {
		t.Errorf("at 160 after the overflow: %d, want 15", got)
	}
	late := tr.ask(300, 204, counts)
	tr.cut(250)
	if _, ok := <-late; ok {
		t.Error("answered across a cut")
	}
	tr.audits = 0
	move(310, 1)
	if len(tr.steps) != 0 {
		t.Error("keeps steps though nobody audits")
	}
}
