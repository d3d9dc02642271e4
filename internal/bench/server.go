package bench

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/internal/daemon"
	"github.com/weir-relay/weir/internal/postgres"
	"github.com/weir-relay/weir/migrations"
)

// server is the Postgres under test, and the bench's own connections to it.
type server struct {
	url     string
	pool    *pgxpool.Pool
	cluster *postgres.Cluster // nil: somebody else's server
	backend int               // a backend's process id, 0 where the server is on another machine
}

// open starts a private cluster, or looks whether a given database may be used.
func open(ctx context.Context, o Options) (_ *server, err error) {
	s := &server{url: o.URL}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.url == "" {
		if err := s.private(ctx, o); err != nil {
			return nil, err
		}
	}
	if err := migrations.Up(ctx, s.url); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns = producers + 4
	config.ConnConfig.RuntimeParams["application_name"] = applicationName
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	return s, s.check(ctx, o.Force)
}

// applicationName tells the bench's own connections from the relay's.
const applicationName = "weir-bench"

// private starts a cluster. Postgres' own checkpoints are put off: each makes the next write of every page
// a full image of it, which would count as written by whoever comes first.
func (s *server) private(ctx context.Context, o Options) (err error) {
	settings := map[string]string{
		"track_commit_timestamp": "on",
		"max_wal_size":           "8GB",
		"checkpoint_timeout":     "1h",
	}
	for name, value := range o.settings {
		settings[name] = value
	}
	s.cluster, err = postgres.Start(ctx, postgres.Options{Dir: o.Dir, SharedBuffers: "512MB", Settings: settings})
	if err == nil {
		s.url = s.cluster.URL("postgres")
	}
	return err
}

// check refuses a database that somebody may be using, and one that doesn't keep the times of commits.
func (s *server) check(ctx context.Context, force bool) error {
	var stamped, used bool
	var pid int
	err := s.pool.QueryRow(ctx, `
SELECT current_setting('track_commit_timestamp')::boolean, EXISTS (SELECT FROM weir.outbox), pg_backend_pid()`).Scan(&stamped, &used, &pid)
	switch {
	case err != nil:
		return err
	case !stamped:
		return errors.New("the server doesn't keep the times of commits, from which latency is measured: set track_commit_timestamp = on and restart it, or leave out the database for a private cluster")
	case used && !force:
		return errors.New("the database has items already, and a bench adds many: name an empty one, or give --force")
	}
	if _, err := daemon.FamilyCPU(pid); err == nil && s.local(pid) {
		s.backend = pid
	}
	return nil
}

// local says whether pid is a process of Postgres on this machine.
func (s *server) local(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && string(name) == "postgres\n"
}

// connect makes a connection of its own for something that is measured.
func (s *server) connect(ctx context.Context, parameters map[string]string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(s.url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = applicationName
	for name, value := range parameters {
		config.RuntimeParams[name] = value
	}
	return pgx.ConnectConfig(ctx, config)
}

func (s *server) close() error {
	if s.pool != nil {
		s.pool.Close()
	}
	if s.cluster != nil {
		return s.cluster.Stop()
	}
	return nil
}
