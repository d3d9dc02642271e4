package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Whoever moves next_pass_at on has the pass, among all the relays of the database. The row also keeps what may be read:
// it fills up with time, to an hour's worth at most, so that neither a restart nor another relay begins with a full one.
const turnSQL = `
INSERT INTO weir.reconcilers AS r (exporter, owner, next_pass_at, reads)
VALUES ($1, $2, clock_timestamp() + $3 * interval '1 second', greatest(1, $4 * $3 / 3600))
    ON CONFLICT (exporter) DO UPDATE
   SET owner = excluded.owner,
       passes = r.passes + 1,
       next_pass_at = excluded.next_pass_at,
       reads = least($4, r.reads + $4 * extract(epoch FROM clock_timestamp() - r.reads_at) / 3600),
       reads_at = clock_timestamp()
 WHERE r.next_pass_at <= clock_timestamp()
RETURNING passes, least(floor(reads), 1000000)::integer`

const waitSQL = `
SELECT extract(epoch FROM next_pass_at - clock_timestamp())::float8
  FROM weir.reconcilers
 WHERE exporter = $1`

const spendSQL = `
UPDATE weir.reconcilers
   SET reads = greatest(0, reads - $2)
 WHERE exporter = $1`

// turn is a pass that this reconciler has, if mine; else wait says how long it is until the next one.
type turn struct {
	mine   bool
	number int64
	reads  int
	wait   time.Duration
}

func (r *Reconciler) turn(ctx context.Context) (t turn, err error) {
	rows, err := r.config.DB.Query(ctx, turnSQL, r.config.Exporter, r.config.Owner, r.config.Interval.Seconds(), float64(r.config.ReadsPerHour))
	if err != nil {
		return t, fmt.Errorf("take a turn: %w", err)
	}
	t.mine, t.wait = true, r.config.Interval
	_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(&t.number, &t.reads)
	})
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		if err != nil {
			err = fmt.Errorf("take a turn: %w", err)
		}
		return t, err
	}
	t.mine = false
	if rows, err = r.config.DB.Query(ctx, waitSQL, r.config.Exporter); err != nil {
		return t, fmt.Errorf("wait for a turn: %w", err)
	}
	seconds, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[float64])
	if err != nil {
		return t, fmt.Errorf("wait for a turn: %w", err)
	}
	t.wait = min(max(time.Duration(seconds*float64(time.Second)), 0), r.config.Interval)
	return t, nil
}

// spend takes the readings that were made off what may be read.
func (r *Reconciler) spend(ctx context.Context, reads int) error {
	if reads == 0 {
		return nil
	}
	if _, err := r.config.DB.Exec(context.WithoutCancel(ctx), spendSQL, r.config.Exporter, reads); err != nil {
		return fmt.Errorf("note the readings: %w", err)
	}
	return nil
}
