package checkpoint

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/machine"
)

// count counts every item as the exported snapshot sees it, however long that takes.
func (b *Book) count(ctx context.Context, snapshot string) (machine.Counts, error) {
	counts := machine.Counts{}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, b.db, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+strings.ReplaceAll(snapshot, "'", "''")+"'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
SELECT set_config(name, '0', true) FROM pg_catalog.pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')`); err != nil {
			return err
		}
		if err := ended(ctx, tx); err != nil {
			return err
		}
		return Count(ctx, tx, counts)
	})
	return counts, err
}

// The transactions that the snapshot takes for committed, and that are still on their way through the server.
const endingSQL = `
SELECT count(*)
  FROM pg_current_snapshot() s,
       generate_series(pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint - 1) x
 WHERE pg_visible_in_snapshot(x::text::xid8, s)
   AND pg_xact_status(x::text::xid8) = 'in progress'`

// ended waits until every transaction that the snapshot shows has ended. Nothing may be read before.
//
// A slot's snapshot is made from the log, where a commit stands a moment before the server's own books have
// it. A row read in that moment looks like one of a transaction that was rolled back, and the reader notes
// this on the row: for good, and for everybody. The item would be lost, although the snapshot was only read.
func ended(ctx context.Context, tx pgx.Tx) error {
	for {
		var n int64
		if err := tx.QueryRow(ctx, endingSQL).Scan(&n); err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// Count adds every item that tx sees to counts. It reads the whole table.
func Count(ctx context.Context, tx pgx.Tx, counts machine.Counts) error {
	if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = on"); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `SELECT exporter, state, count(*) FROM weir.deliveries GROUP BY exporter, state`)
	if err != nil {
		return err
	}
	var exporter string
	var state machine.State
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&exporter, &state, &n}, func() error {
		counts.Add(exporter, state, n)
		return nil
	})
	return err
}
