package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/exporter/null"
	"github.com/weir-relay/weir/internal/config"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/relay"
	"github.com/weir-relay/weir/replication"
)

func (a *app) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Deliver until stopped",
		Long: `Deliver what the outbox holds, and what is committed to it, until SIGINT or SIGTERM.

Several may run on one database: they share the work, one of them reads the log, and
another takes over when it ends. A stop is orderly: what is being sent is finished and
written down, what was not sent is handed back. A second signal ends it at once; nothing
is lost by that, either.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.deliver(c.Context()) },
	}
}

// deliver runs a relay, and its listener, until ctx ends.
func (a *app) deliver(ctx context.Context) error {
	url, err := a.url()
	if err != nil {
		return err
	}
	c, log := a.loaded, a.logger(a.loaded)
	pool, err := relay.Open(ctx, url.Reveal(), len(c.Lanes)+afterwards(c), c.Database.PoolSize)
	if err != nil {
		return err
	}
	defer pool.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	accounts := newStripeLanes(a, machine.NewStore(pool, c.Policy.Machine()), log, registry)
	lanes, err := a.lanes(c, accounts)
	if err != nil {
		return err
	}
	if err := checkSchema(ctx, pool, c, log); err != nil {
		return err
	}
	var doorbell *replication.Config // nil: switched off
	if c.Replication.Enabled {
		config := a.replication(c)
		config.Fuse = int64(c.Replication.Fuse)
		doorbell = &config
	}
	if err := accounts.inspect(ctx); err != nil {
		return err
	}
	r, err := relay.New(relay.Config{
		Pool:          pool,
		Replication:   doorbell,
		Policy:        c.Policy.Machine(),
		Lanes:         lanes,
		Owner:         c.Relay.Owner,
		PollInterval:  c.Relay.PollInterval,
		SweepInterval: c.Relay.SweepInterval,
		Grace:         c.Relay.ShutdownGrace,
		Registerer:    registry,
		Logger:        log,
		OnReady:       func() { log.Info("delivering", "lanes", len(lanes), "version", readBuild().Version) },
		OnShutdown:    func() { log.Info("stopped: everything that was sent is settled") },
	})
	if err != nil {
		return err
	}
	reconcilers, err := accounts.reconcilers(c, pool, registry)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	listener, err := listen(c.HTTP.Listen, r, registry, log)
	if err != nil {
		return err
	}
	webhooks, err := accounts.webhooks(c, pool)
	if err != nil {
		listener.close()
		return err
	}
	watching, endWatch := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { accounts.watch(watching) })
	beside.Go(func() { reconcileAll(watching, reconcilers) })
	beside.Go(func() { serve(listener, c.HTTP.Listen, stop) })
	beside.Go(func() { serve(webhooks, c.HTTP.Webhooks, stop) })
	err = r.Run(ctx)
	endWatch()
	webhooks.close()
	listener.close()
	beside.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// serve answers on a listener; where that fails, the relay stops.
func serve(l *listener, address string, stop context.CancelCauseFunc) {
	if err := l.serve(); err != nil {
		stop(fmt.Errorf("serve %s: %w", address, err))
	}
}

// lanes makes an exporter for each lane of the configuration.
func (a *app) lanes(c *config.Config, accounts *stripeLanes) ([]relay.LaneConfig, error) {
	var lanes []relay.LaneConfig
	for name, lane := range c.Lanes {
		var e exporter.Exporter = null.Exporter{}
		if lane.Type == "stripe" {
			made, err := accounts.add(name, lane)
			if err != nil {
				return nil, err
			}
			e = made
		}
		lanes = append(lanes, relay.LaneConfig{Name: name, Exporter: e, Order: lane.Order})
	}
	slices.SortFunc(lanes, func(x, y relay.LaneConfig) int { return strings.Compare(x.Name, y.Name) })
	return lanes, nil
}

// checkSchema refuses a database without weir's schema, or whose schema the role may not use: these are mistakes in
// the set-up. A database that doesn't answer is none: it may come up later than weir does.
func checkSchema(ctx context.Context, pool *pgxpool.Pool, c *config.Config, log *slog.Logger) error {
	var present, reconciles, may bool
	var role string
	err := pool.QueryRow(ctx, `
SELECT to_regclass('weir.deliveries') IS NOT NULL,
       to_regclass('weir.reconcilers') IS NOT NULL,
       coalesce(has_table_privilege(to_regclass('weir.deliveries')::oid, 'UPDATE'), false),
       current_user`).Scan(&present, &reconciles, &may, &role)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && refuses(pg.Code):
		return fmt.Errorf("look for weir's schema: %w", err)
	case err != nil && ctx.Err() == nil:
		log.Warn("the database doesn't answer yet; weir keeps trying", "error", err)
	case err == nil && !present:
		return errors.New("the database has no table weir.deliveries: run weir migrate up first")
	case err == nil && !may:
		return fmt.Errorf("role %s may not update weir.deliveries, as a relay must: run weir doctor, which says what to grant", role)
	case err == nil && !reconciles && afterwards(c) > 0:
		return errors.New("the database has no table weir.reconcilers, which reconcile.enabled and http.webhooks need: run weir migrate up first")
	}
	return nil
}

// refuses reports whether a SQLSTATE says no to the role, its password or its database, and not just for now.
func refuses(code string) bool {
	return strings.HasPrefix(code, "28") || code == "42501" || code == "3D000"
}
