package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/internal/postgres"
	"github.com/weir-relay/weir/migrations"
)

// Options say what is tortured, and how patiently.
type Options struct {
	// Program is weir's executable.
	Program string
	// Dir gets a folder for each seed that fails.
	Dir string
	// Strikes, if set, are the kinds of strikes that are drawn. Defaults to all.
	Strikes []string
	// Relays, if set, is how many relays there are.
	Relays int
	// Keep leaves the folders of the seeds that pass too.
	Keep bool
	// Patience is how long a run may take to come to rest after its last fault. Defaults to 45 seconds: a lane's
	// and a stream's pauses double while something is down.
	Patience time.Duration
}

// Arena is the Postgres server on which seeds run, one after the other, each in a database of its own.
type Arena struct {
	options Options
	cluster *postgres.Cluster
}

// template is the database that those of the seeds are copied from.
const template = "weir_template"

// Open starts the server.
func Open(ctx context.Context, o Options) (*Arena, error) {
	return openIn(ctx, o, "")
}

// openIn starts the server with its data below dir.
func openIn(ctx context.Context, o Options, dir string) (*Arena, error) {
	if o.Patience == 0 {
		o.Patience = 45 * time.Second
	}
	cluster, err := postgres.Start(ctx, postgres.Options{NoFsync: true, Dir: dir, Settings: map[string]string{
		// The runs say themselves when the log is cut off, and nothing is to be kept from one to the next.
		"wal_keep_size": "0", "max_wal_size": "64MB", "log_min_messages": "log",
	}})
	if err != nil {
		return nil, err
	}
	a := &Arena{options: o, cluster: cluster}
	if err := a.admin(ctx, "CREATE DATABASE "+template); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if err := migrations.Up(ctx, cluster.URL(template)); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close stops the server and removes it.
func (a *Arena) Close() error { return a.cluster.Stop() }

// admin runs statements in the maintenance database.
func (a *Arena) admin(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, a.cluster.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// shownFaults bounds what an error names of a run's faults.
const shownFaults = 6

// Run runs one seed. The error says everything that was found wrong, and where the evidence is.
func (a *Arena) Run(ctx context.Context, seed uint64) error {
	return a.run(ctx, draw(seed, today(), a.options))
}

// today is the time of the usage: the same all day, since a payload must not change when it is enqueued again.
func today() time.Time { return time.Now().UTC().Truncate(24 * time.Hour) }

func (a *Arena) run(ctx context.Context, p *Plan) error {
	w, err := a.newWorld(ctx, p)
	if err != nil {
		return fmt.Errorf("seed %d: set up: %w", p.Seed, err)
	}
	w.play(ctx)
	faults := w.close(ctx)
	if faults == nil && !a.options.Keep {
		return os.RemoveAll(w.dir)
	}
	if err := w.report(); err != nil {
		faults = append(faults, err)
	}
	if faults == nil {
		return nil
	}
	if more := len(faults) - shownFaults; more > 0 {
		faults = append(faults[:shownFaults], fmt.Errorf("and %d more, in faults.txt", more))
	}
	return fmt.Errorf("seed %d: %w\nevidence: %s", p.Seed, errors.Join(faults...), w.dir)
}
