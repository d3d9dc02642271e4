package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// poller is the outbox relay that most teams write: rows locked, sent and marked in one transaction.
type poller struct {
	interval time.Duration // between looks that find less than a whole batch
	batch    int
	calls    int // at a time
}

var (
	pollerPlain = poller{200 * time.Millisecond, 100, 1}
	pollerTuned = poller{20 * time.Millisecond, 1000, 16}
)

func pollerPeer(settings string, p poller) peer {
	return peer{
		name:     "poller",
		settings: settings,
		prepare:  preparePoller,
		producer: func(*pgxpool.Pool) (enqueue, error) { return enqueuePolled, nil },
		work:     p.work,
		open:     `SELECT EXISTS (SELECT FROM outbox WHERE sent_at IS NULL)`,
		finished: `SELECT max(pg_xact_commit_timestamp(xmin)), count(sent_at) FROM outbox`,
	}
}

func preparePoller(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `
CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb NOT NULL, sent_at timestamptz);
CREATE INDEX ON outbox (id) WHERE sent_at IS NULL`)
	return err
}

func enqueuePolled(ctx context.Context, tx pgx.Tx, items []item) error {
	_, err := tx.Exec(ctx, `INSERT INTO outbox (payload) SELECT jsonb_array_elements($1::jsonb)`, items)
	return err
}

func (p poller) work(ctx context.Context, pool *pgxpool.Pool, do deliver) error {
	for {
		var n int
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			n, err = p.look(ctx, tx, do)
			return err
		})
		if err != nil {
			return err
		}
		if n == p.batch {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.interval):
		}
	}
}

// look sends one batch and says how many there were.
func (p poller) look(ctx context.Context, tx pgx.Tx, do deliver) (int, error) {
	rows, err := tx.Query(ctx, `
SELECT id, payload
  FROM outbox
 WHERE sent_at IS NULL
 ORDER BY id
 LIMIT $1
   FOR UPDATE SKIP LOCKED`, p.batch)
	if err != nil {
		return 0, fmt.Errorf("look: %w", err)
	}
	var ids []int64
	var items []item
	var id int64
	var it item
	_, err = pgx.ForEachRow(rows, []any{&id, &it}, func() error {
		ids, items = append(ids, id), append(items, it)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(p.calls)
	for _, it := range items {
		group.Go(func() error { return do(sending, it) })
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `UPDATE outbox SET sent_at = clock_timestamp() WHERE id = ANY ($1)`, ids)
	return len(ids), err
}
