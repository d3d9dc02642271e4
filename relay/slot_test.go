package relay

import (
	"fmt"
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// lessons 12, 13, 22: the table is the truth, so what the slot doesn't tell any more is found by a sweep, once, without a
// person, and the counts are right afterwards.
func TestItemsOutliveTheSlot(t *testing.T) {
	for name, harm := range map[string]string{
		replication.ReasonMissing: `SELECT pg_drop_replication_slot($1)`,
		replication.ReasonAhead:   `SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())`,
	} {
		t.Run(name, func(t *testing.T) {
			const n = 500
			db := pgtest.Migrated(t)
			p := newProvider()
			r := start(t, db.URL(), p, nil)
			r.streams(t)
			slot := r.config.Replication.Slot
			enqueue(t, db.Pool(), "before", n)
			eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: n})
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			enqueue(t, db.Pool(), "while away", n)
			db.Exec(t, harm, slot)
			r = start(t, db.URL(), p, nil)
			eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 2 * n})
			r.streams(t)
			if times, items := p.most(); times != 1 || items != 2*n {
				t.Errorf("want %d items sent once, got %d, one of them %d times", 2*n, items, times)
			}
			pgtest.Eventually(t, patience, func() error {
				s := r.Status()
				if got := s.Checkpoint.Counts.Get("stripe", machine.Accepted); got != 2*n || s.Stream.Recreations[name] != 1 {
					return fmt.Errorf("counted %d accepted of %d, recreations %v", got, 2*n, s.Stream.Recreations)
				}
				return nil
			})
		})
	}
}
