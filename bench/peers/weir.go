package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/daemon"
	"github.com/weir-relay/weir/migrations"
	"github.com/weir-relay/weir/outbox"
)

func weir() peer {
	return peer{
		name:     "weir",
		settings: "defaults",
		prepare: func(ctx context.Context, pool *pgxpool.Pool) error {
			return migrations.Up(ctx, pool.Config().ConnString())
		},
		producer: func(*pgxpool.Pool) (enqueue, error) { return enqueueWeir, nil },
		open:     `SELECT EXISTS (SELECT FROM weir.deliveries WHERE open)`,
		finished: `SELECT max(pg_xact_commit_timestamp(xmin)), count(accepted_at) FROM weir.deliveries`,
	}
}

func enqueueWeir(ctx context.Context, tx pgx.Tx, items []item) error {
	staged := make([]outbox.Item, len(items))
	for i, it := range items {
		staged[i] = outbox.Item{
			TenantKey: "bench", SubjectRef: it.Identifier, Mode: "live", MappingVersion: "1",
			Payload: map[string]any{
				"customer": it.Customer, "meter": it.Meter, "value": strconv.FormatInt(it.Number, 10), "timestamp": it.Timestamp,
			},
		}
	}
	_, err := outbox.Enqueue(ctx, tx, staged...)
	return err
}

// startWeir runs a relay whose lane sends to the receiver at url, or accepts everything where that is "".
func startWeir(o options, database, url string) (*daemon.Relay, error) {
	listen, err := daemon.FreeAddress()
	if err != nil {
		return nil, err
	}
	lane := "type: 'null'"
	if url != "" {
		lane = "type: stripe\n    stripe:\n      key: rk_live_peers\n      url: " + url
	}
	config := filepath.Join(o.dir, "weir.yaml")
	text := fmt.Sprintf("database:\n  url: %s\nhttp:\n  listen: %s\nlanes:\n  stripe:\n    %s\n", database, listen, lane)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return daemon.Start(daemon.Options{Program: o.weir, Config: config, Home: o.dir, Listen: listen, Log: o.log})
}

// makeSlot lets a relay make its slot and leave, as one has that isn't new.
func makeSlot(ctx context.Context, o options, database string) error {
	relay, err := startWeir(o, database, "")
	if err != nil {
		return err
	}
	if err := relay.AwaitStreaming(ctx); err != nil {
		relay.Kill() //nolint:errcheck // the first error says more
		return fmt.Errorf("start weir: %w", err)
	}
	return relay.Stop()
}

// dropSlot removes what relays have left, without which their database can't be dropped.
func dropSlot(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `
SELECT pg_drop_replication_slot(slot_name)
  FROM pg_replication_slots
 WHERE database = current_database()`)
	return err
}
