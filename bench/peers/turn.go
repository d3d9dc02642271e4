package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// turn is a peer's time on a database of its own.
type turn struct {
	*bench
	peer  peer
	name  string // the database's
	pool  *pgxpool.Pool
	stage enqueue
}

// begin makes the database and the peer's tables in it.
func (b *bench) begin(ctx context.Context, p peer) (_ *turn, err error) {
	b.turns++
	t := &turn{bench: b, peer: p, name: fmt.Sprintf("turn_%d", b.turns)}
	if err := b.administer(ctx, "CREATE DATABASE "+t.name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.end(context.WithoutCancel(ctx)))
		}
	}()
	config, err := pgxpool.ParseConfig(t.url())
	if err != nil {
		return nil, err
	}
	config.MaxConns = producers + 4
	if t.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if _, err := t.pool.Exec(ctx, `CREATE TABLE usage (number bigint PRIMARY KEY)`); err != nil {
		return nil, err
	}
	if err := p.prepare(ctx, t.pool); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	if t.stage, err = p.producer(t.pool); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	if p.work == nil {
		err = makeSlot(ctx, b.options, t.url())
	}
	return t, err
}

func (t *turn) url() string { return t.cluster.URL(t.name) }

// end drops the database.
func (t *turn) end(ctx context.Context) error {
	var errs []error
	if t.pool != nil {
		errs = append(errs, dropSlot(ctx, t.pool))
		t.pool.Close()
	}
	return errors.Join(append(errs, t.administer(ctx, "DROP DATABASE "+t.name+" WITH (FORCE)"))...)
}

func (b *bench) administer(ctx context.Context, statement string) error {
	pool, err := pgxpool.New(ctx, b.cluster.URL("postgres"))
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, statement)
	return err
}

// vacuum does what autovacuum would do some time later, in the middle of a measurement.
func (t *turn) vacuum(ctx context.Context) error {
	_, err := t.pool.Exec(ctx, "VACUUM (ANALYZE)")
	return err
}

// until polls a condition, and whether the peer's process still runs.
func (t *turn) until(ctx context.Context, w worker, condition func() (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := w.Ended(); err != nil {
			return err
		}
		if done, err := condition(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// limited bounds a turn.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, fmt.Errorf("the turn took longer than %v", patience))
}
