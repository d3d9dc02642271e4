package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-relay/weir/exporter/stripe"
	"github.com/weir-relay/weir/exporter/stripe/reports"
	"github.com/weir-relay/weir/internal/config"
	"github.com/weir-relay/weir/reconcile"
)

// afterwards is how many connections reconcilers and webhooks may use besides those of the lanes, in lanes.
func afterwards(c *config.Config) int {
	if c.Reconcile.Enabled || c.HTTP.Webhooks != "" {
		return 1
	}
	return 0
}

// reconcilers makes one for each Stripe lane, none where reconciling is off.
func (s *stripeLanes) reconcilers(c *config.Config, pool *pgxpool.Pool, registry prometheus.Registerer) ([]*reconcile.Reconciler, error) {
	if !c.Reconcile.Enabled {
		return nil, nil
	}
	metrics, err := reconcile.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	var out []*reconcile.Reconciler
	for _, l := range s.lanes {
		settings := reconcileConfig(c, pool, l.name, l.exporter, s.log)
		settings.Metrics = metrics
		if c.Lanes[l.name].Stripe.PollErrorReports {
			poller := &reports.Poller{DB: pool, Lane: l.name, Exporter: l.exporter, Logger: l.log}
			settings.Poll = poller.Poll
		}
		made, err := reconcile.New(settings)
		if err != nil {
			return nil, fmt.Errorf("lane %s: %w", l.name, err)
		}
		out = append(out, made)
	}
	return out, nil
}

func reconcileConfig(c *config.Config, db reconcile.DB, lane string, e *stripe.Exporter, log *slog.Logger) reconcile.Config {
	return reconcile.Config{
		DB: db, Exporter: lane, Books: e.Books(), Owner: c.Relay.Owner, Logger: log,
		Settle: c.Reconcile.SettleDelay, Interval: c.Reconcile.Interval, ReadsPerHour: c.Reconcile.ReadsPerHour,
	}
}

// reconcileAll runs them until ctx ends.
func reconcileAll(ctx context.Context, all []*reconcile.Reconciler) {
	var running sync.WaitGroup
	for _, r := range all {
		running.Go(func() { r.Run(ctx) })
	}
	running.Wait()
}

// webhooks listens for Stripe, where it is to.
func (s *stripeLanes) webhooks(c *config.Config, pool *pgxpool.Pool) (*listener, error) {
	if c.HTTP.Webhooks == "" {
		return &listener{}, nil
	}
	var lanes []reports.Lane
	for _, l := range s.lanes {
		secret, err := c.Lanes[l.name].ReadWebhookSecret()
		if err != nil {
			return nil, fmt.Errorf("lane %s: %w", l.name, err)
		}
		if secret != "" {
			lanes = append(lanes, reports.Lane{Name: l.name, Exporter: l.exporter, Secret: secret.Reveal()})
		}
	}
	socket, err := net.Listen("tcp", c.HTTP.Webhooks)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w: choose another address with http.webhooks, or off", c.HTTP.Webhooks, err)
	}
	s.log.Info("listening for webhooks", "address", socket.Addr().String(), "lanes", len(lanes))
	return &listener{socket, &http.Server{
		Handler:           reports.Handler(pool, lanes, s.log),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      45 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}}, nil
}
