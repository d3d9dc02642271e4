package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// watermillSettings are those that matter here; a zero is watermill's default.
type watermillSettings struct {
	poll  time.Duration
	batch int
}

var (
	watermillDefaults = watermillSettings{}
	watermillTuned    = watermillSettings{10 * time.Millisecond, 1000}
)

// topic is part of the names of watermill's tables.
const topic = "items"

func watermillPeer(settings string, s watermillSettings) peer {
	return peer{
		name:     "watermill-sql",
		settings: settings,
		prepare:  s.prepare,
		producer: s.producer,
		work:     s.work,
		// Its position is the last message of the last batch.
		open: `
SELECT NOT EXISTS (
    SELECT FROM watermill_offsets_items o
      JOIN (SELECT "offset" FROM watermill_items ORDER BY transaction_id DESC, "offset" DESC LIMIT 1) last
        ON last."offset" = o.offset_acked)`,
		finished: `
SELECT (SELECT max(pg_xact_commit_timestamp(xmin)) FROM watermill_offsets_items), count(*)
  FROM watermill_items`,
	}
}

func (s watermillSettings) schema() sql.SchemaAdapter {
	return sql.DefaultPostgreSQLSchema{SubscribeBatchSize: s.batch}
}

func (s watermillSettings) subscriber(pool *pgxpool.Pool) (*sql.Subscriber, error) {
	return sql.NewSubscriber(sql.BeginnerFromPgx(pool), sql.SubscriberConfig{
		PollInterval:   s.poll,
		SchemaAdapter:  s.schema(),
		OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{},
	}, watermill.NewSlogLogger(quiet()))
}

func (s watermillSettings) prepare(_ context.Context, pool *pgxpool.Pool) error {
	subscriber, err := s.subscriber(pool)
	if err != nil {
		return err
	}
	return subscriber.SubscribeInitialize(topic)
}

func (s watermillSettings) producer(*pgxpool.Pool) (enqueue, error) {
	return func(ctx context.Context, tx pgx.Tx, items []item) error {
		publisher, err := sql.NewPublisher(sql.TxFromPgx(tx), sql.PublisherConfig{SchemaAdapter: s.schema()}, nil)
		if err != nil {
			return err
		}
		messages := make([]*message.Message, len(items))
		for i, it := range items {
			payload, err := json.Marshal(it)
			if err != nil {
				return err
			}
			messages[i] = message.NewMessage(watermill.NewUUID(), payload)
			messages[i].SetContext(ctx)
		}
		return publisher.Publish(topic, messages...)
	}, nil
}

// work takes one message after the other: watermill hands out the next once one is acknowledged.
func (s watermillSettings) work(ctx context.Context, pool *pgxpool.Pool, do deliver) error {
	subscriber, err := s.subscriber(pool)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	messages, err := subscriber.Subscribe(ctx, topic)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	for m := range messages {
		var it item
		if err := json.Unmarshal(m.Payload, &it); err != nil {
			return fmt.Errorf("read message %s: %w", m.UUID, err)
		}
		if err := do(m.Context(), it); err != nil {
			m.Nack()
			continue
		}
		m.Ack()
	}
	return nil
}
