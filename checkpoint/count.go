package checkpoint

import (
	"context"
	"strings"

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
		return Count(ctx, tx, counts)
	})
	return counts, err
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
