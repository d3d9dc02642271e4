package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"
)

// Standby copies the cluster and starts the copy as its streaming replica, on a
// port of its own. It lives, and is stopped, apart from its primary. Settings
// are added to the primary's Options.Settings.
func (c *Cluster) Standby(ctx context.Context, settings map[string]string) (*Cluster, error) {
	opts := c.opts
	opts.Binaries = c.bin
	opts.Settings = maps.Clone(c.opts.Settings)
	if opts.Settings == nil {
		opts.Settings = map[string]string{}
	}
	maps.Copy(opts.Settings, settings)

	s, err := newCluster(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("start standby: %w", err)
	}
	s.password = c.password
	err = run(ctx, s.as, s.folder.path, s.bin.Path("pg_basebackup"),
		"--dbname", c.URL("postgres"), "--pgdata", s.dataDir(),
		"--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync")
	if err == nil {
		err = s.startOnFreePort(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start standby: %w", errors.Join(err, s.Stop()))
	}
	return s, nil
}

// Promote makes a standby a primary and returns when it accepts writes.
func (c *Cluster) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	defer conn.Close(ctx)
	var promoted bool
	if err := conn.QueryRow(ctx, "SELECT pg_promote(wait => true)").Scan(&promoted); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	if !promoted {
		return fmt.Errorf("promote: still a standby after pg_promote's minute; its log ends:\n%s", c.LogTail())
	}
	return nil
}
