package pgtest

import (
	"context"
	"time"
)

// A logical slot pins its database, and an active one can't be dropped. No new
// connection is let in first, or a relay that reconnects would take it again.
const (
	sqlTerminateWalsenders = `
SELECT pg_terminate_backend(active_pid)
FROM pg_replication_slots
WHERE database = $1
  AND active_pid IS NOT NULL`

	sqlDropSlots = `
SELECT pg_drop_replication_slot(slot_name)
FROM pg_replication_slots
WHERE database = $1
  AND active_pid IS NULL`

	sqlCountSlots = `
SELECT count(*)
FROM pg_replication_slots
WHERE database = $1`
)

func (s *server) drop(ctx context.Context, name string) error {
	if _, err := s.admin.Exec(ctx, "ALTER DATABASE "+identifier(name)+" ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	if err := s.dropSlots(ctx, name); err != nil {
		return err
	}
	_, err := s.admin.Exec(ctx, "DROP DATABASE "+identifier(name)+" WITH (FORCE)")
	return err
}

func (s *server) dropSlots(ctx context.Context, database string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := s.admin.Exec(ctx, sqlTerminateWalsenders, database); err != nil {
			return err
		}
		// A slot may become active, or vanish as a temporary one does, between
		// the look at it and the drop: then the next round finds out.
		_, dropErr := s.admin.Exec(ctx, sqlDropSlots, database)
		var left int
		if err := s.admin.QueryRow(ctx, sqlCountSlots, database).Scan(&left); err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			if dropErr != nil {
				return dropErr
			}
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
