package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const first = `
INSERT INTO weir.inbox (consumer, message_id)
VALUES ($1, $2)
    ON CONFLICT DO NOTHING`

// First records that consumer handles the message in tx, and reports whether it is the first to do so. On
// false the message has been handled by a transaction that committed, or earlier in tx.
func First(ctx context.Context, tx pgx.Tx, consumer, messageID string) (bool, error) {
	return record(consumer, messageID, func() (int64, error) {
		tag, err := tx.Exec(ctx, first, consumer, messageID)
		return tag.RowsAffected(), err
	})
}

// FirstSQL is First for database/sql, with any Postgres driver.
func FirstSQL(ctx context.Context, tx *sql.Tx, consumer, messageID string) (bool, error) {
	return record(consumer, messageID, func() (int64, error) {
		result, err := tx.ExecContext(ctx, first, consumer, messageID)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	})
}

func record(consumer, messageID string, insert func() (int64, error)) (bool, error) {
	if consumer == "" || messageID == "" {
		return false, fmt.Errorf("inbox: consumer %q, message %q: neither may be empty", consumer, messageID)
	}
	n, err := insert()
	if err != nil {
		return false, fmt.Errorf("inbox: record message %s of %s: %w", messageID, consumer, err)
	}
	return n == 1, nil
}

// Querier is a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// page is how many records one statement of Forget looks at: short enough to hold no lock for long.
const page = 10_000

// One page of a walk along the primary key, since there is no index on the age: it would cost every First
// for the sake of a rare Forget. A record's age is measured by the clock that wrote it. ctid finds what the
// page found; a join could be planned as a scan of the whole table for each page.
const forget = `
WITH page AS MATERIALIZED (
    SELECT ctid, message_id, received_at
      FROM weir.inbox
     WHERE consumer = $1
       AND message_id > $2
     ORDER BY message_id
     LIMIT $4
), forgotten AS (
    DELETE FROM weir.inbox
     WHERE ctid = ANY (ARRAY(
           SELECT ctid
             FROM page
            WHERE received_at < clock_timestamp() - $3::bigint * interval '1 microsecond'))
 RETURNING 1
)
SELECT coalesce((SELECT max(message_id) FROM page), ''), (SELECT count(*) FROM forgotten)`

// Forget removes the records of consumer that are older than olderThan, and reports how many. A message
// that is delivered after that is the first again, so olderThan must be longer than its sender may still
// repeat it, with a margin: Stripe repeats a webhook for 3 days, and by hand for 30.
//
// It works in short statements. Given a pool, each commits on its own: what was removed before an error
// stays removed, and is counted in n.
func Forget(ctx context.Context, db Querier, consumer string, olderThan time.Duration) (n int64, err error) {
	return walk(ctx, db, consumer, olderThan, page)
}

func walk(ctx context.Context, db Querier, consumer string, olderThan time.Duration, page int) (n int64, err error) {
	if consumer == "" || olderThan < time.Second {
		return 0, errors.New("inbox: forget: name a consumer, and an age of at least a second")
	}
	for last, removed := "", int64(0); ; n += removed {
		if err := db.QueryRow(ctx, forget, consumer, last, olderThan.Microseconds(), page).Scan(&last, &removed); err != nil {
			return n, fmt.Errorf("inbox: forget messages of %s: %w", consumer, err)
		}
		if last == "" {
			return n, nil
		}
	}
}
