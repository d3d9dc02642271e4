package torture

import (
	"context"
	"time"

	"github.com/jackc/pglogrepl"
)

// watch looks all the time whether the server was told of a position that the checkpoint hasn't got. The slot
// is read before the row, which only moves forward, so what is seen of both was true at one moment. A slot
// that doesn't stream yet is being made: its first count is still to be written.
func (w *world) watch(ctx context.Context) {
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	looks := 0
	for {
		select {
		case <-ctx.Done():
			w.journal.note("the slot was compared with the checkpoint %d times", looks)
			return
		case <-tick.C:
		}
		confirmed, ok := w.position(ctx, `
SELECT s.confirmed_flush_lsn::text
  FROM pg_replication_slots s
  JOIN pg_stat_replication r ON r.pid = s.active_pid
 WHERE s.slot_name = $1 AND r.state = 'streaming' AND r.application_name = 'weir'`)
		if !ok {
			continue
		}
		written, ok := w.position(ctx, `SELECT lsn::text FROM weir.checkpoints WHERE slot = $1`)
		if !ok {
			continue
		}
		looks++
		if confirmed > written {
			w.fail("the slot was confirmed at %v while the checkpoint was at %v", confirmed, written)
			return
		}
	}
}

func (w *world) position(ctx context.Context, sql string) (pglogrepl.LSN, bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var text string
	if err := w.db().QueryRow(ctx, sql, w.slot()).Scan(&text); err != nil {
		return 0, false
	}
	at, err := pglogrepl.ParseLSN(text)
	return at, err == nil
}
