package replication

import (
	"fmt"
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
)

// lesson 7: nothing that has to be in a publication keeps the slot going. All that is written is in another database, which
// the slot never hears of, and the server forgets its log all the same.
func TestBusyDatabaseBesideAnIdleOne(t *testing.T) {
	r := setUp(t).start().streaming()
	other := pgtest.New(t)
	other.Exec(t, `CREATE TABLE busy AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)`)
	target := r.walPosition()
	r.eventually(func() error {
		// The server moves what it retains where it has written which transactions run.
		other.Exec(t, `CHECKPOINT`)
		slot := r.slot()
		if from := slot.ServerLSN - LSN(slot.RetainedBytes); slot.Confirmed < target || from < target {
			return fmt.Errorf("slot confirmed %s and retains the log from %s, not yet %s", slot.Confirmed, from, target)
		}
		return nil
	})
	if n := r.log.count(); n != 0 {
		t.Errorf("%d changes, want none", n)
	}
	r.stop()
}
