package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Set changes a setting (ALTER SYSTEM), reloads, and returns when new sessions
// see it. A setting that is fixed at server start needs a Restart as well.
func (c *Cluster) Set(ctx context.Context, name, value string) error {
	statement := "ALTER SYSTEM SET " + pgx.Identifier{name}.Sanitize() + " = '" + strings.ReplaceAll(value, "'", "''") + "'"
	if err := c.reload(ctx, statement); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return nil
}

func (c *Cluster) reload(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	before, err := loadTime(ctx, conn)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, statement); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		// Each session starts with the postmaster's values, so ask a new one.
		if done, err := c.loadedSince(ctx, before); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (c *Cluster) loadedSince(ctx context.Context, before time.Time) (bool, error) {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return false, err
	}
	defer conn.Close(ctx)
	now, err := loadTime(ctx, conn)
	return now.After(before), err
}

func loadTime(ctx context.Context, conn *pgx.Conn) (at time.Time, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_conf_load_time()").Scan(&at)
	return at, err
}
