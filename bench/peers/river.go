package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverDefaults are River's, with the workers of its documentation's first example.
func riverDefaults() river.Config {
	return river.Config{Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}}
}

// riverTuned is how River's own benchmark, `river bench`, sets it up.
func riverTuned() river.Config {
	return river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
	}
}

// report is a River job: one item.
type report struct{ Item item }

func (report) Kind() string { return "report" }

type reporter struct {
	river.WorkerDefaults[report]
	do deliver
}

func (r *reporter) Work(ctx context.Context, job *river.Job[report]) error {
	return r.do(ctx, job.Args.Item)
}

func riverPeer(settings string, config river.Config) peer {
	return peer{
		name:     "River",
		settings: settings,
		prepare:  prepareRiver,
		producer: func(pool *pgxpool.Pool) (enqueue, error) { return riverProducer(pool, config) },
		work: func(ctx context.Context, pool *pgxpool.Pool, do deliver) error {
			return riverWork(ctx, pool, config, do)
		},
		open:     `SELECT EXISTS (SELECT FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled'))`,
		finished: `SELECT max(pg_xact_commit_timestamp(xmin)), count(*) FILTER (WHERE state = 'completed') FROM river_job`,
	}
}

func prepareRiver(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// riverProducer makes a client that only inserts. How often it notifies follows from FetchCooldown, which
// is therefore the workers'.
func riverProducer(pool *pgxpool.Pool, config river.Config) (enqueue, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown: config.FetchCooldown, FetchPollInterval: config.FetchPollInterval, Logger: quiet(),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx, items []item) error {
		if len(items) == 1 {
			_, err := client.InsertTx(ctx, tx, report{items[0]}, nil)
			return err
		}
		jobs := make([]river.InsertManyParams, len(items))
		for i, it := range items {
			jobs[i].Args = report{it}
		}
		_, err := client.InsertManyFastTx(ctx, tx, jobs)
		return err
	}, nil
}

func riverWork(ctx context.Context, pool *pgxpool.Pool, config river.Config, do deliver) error {
	config.Workers, config.Logger = river.NewWorkers(), quiet()
	river.AddWorker(config.Workers, &reporter{do: do})
	client, err := river.NewClient(riverpgxv5.New(pool), &config)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return client.Stop(ending)
}
