package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"

	"github.com/weir-relay/weir/internal/config"
	"github.com/weir-relay/weir/machine"
)

// app is what the commands share: the streams, the global flags, and what is made of them when it is first asked for.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            []string

	file        string   // --config
	databaseURL string   // --database-url
	logLevel    string   // --log-level
	sets        []string // --set
	json        bool     // --json

	began  bool           // the command line was understood
	loaded *config.Config // by config
}

func (a *app) globalFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.file, "config", "", "configuration `file` (default: $WEIR_CONFIG, or weir.yaml where there is one)")
	flags.StringVar(&a.databaseURL, "database-url", "", "the database's connection string, instead of database.url")
	flags.StringVar(&a.logLevel, "log-level", "", "debug, info, warn or error, instead of log.level")
	flags.StringArrayVar(&a.sets, "set", nil, "any other setting, as in policy.lease=3m; repeatable (`key=value`)")
	flags.BoolVar(&a.json, "json", false, "print JSON")
}

// config answers the settings in effect.
func (a *app) config() (*config.Config, error) {
	if a.loaded != nil {
		return a.loaded, nil
	}
	sources := config.Sources{File: a.file, Env: a.env}
	for _, set := range a.sets {
		path, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, usagef("--set %q: write key=value, as in --set policy.lease=3m", set)
		}
		sources.Flags = append(sources.Flags, config.Flag{Name: "--set", Path: path, Value: value})
	}
	if a.databaseURL != "" {
		sources.Flags = append(sources.Flags, config.Flag{Name: "--database-url", Path: "database.url", Value: a.databaseURL})
	}
	if a.logLevel != "" {
		sources.Flags = append(sources.Flags, config.Flag{Name: "--log-level", Path: "log.level", Value: a.logLevel})
	}
	c, err := config.Load(sources)
	if err != nil {
		return nil, err
	}
	a.loaded = c
	return c, nil
}

// logger writes to standard error, as log.level and log.format say.
func (a *app) logger(c *config.Config) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Log.Level)); err != nil {
		level = slog.LevelInfo // config has checked it
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(a.stderr, options))
	}
	return slog.New(slog.NewTextHandler(a.stderr, options))
}

// url is the database's connection string.
func (a *app) url() (config.DSN, error) {
	c, err := a.config()
	if err != nil {
		return "", err
	}
	if c.Database.URL == "" {
		return "", usagef("no database: set WEIR_DATABASE_URL, database.url in weir.yaml, or --database-url")
	}
	return c.Database.URL, nil
}

// pool connects to the database, for a command that a person waits for. The caller closes it.
func (a *app) pool(ctx context.Context) (*pgxpool.Pool, error) {
	url, err := a.url()
	if err != nil {
		return nil, err
	}
	settings, err := pgxpool.ParseConfig(url.Reveal())
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", url, err)
	}
	settings.MaxConns = 2
	if settings.ConnConfig.ConnectTimeout == 0 {
		settings.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	if settings.ConnConfig.RuntimeParams["application_name"] == "" {
		settings.ConnConfig.RuntimeParams["application_name"] = "weir"
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", url, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, &unreachableError{url, err}
	}
	return pool, nil
}

// store is pool and the machine over it.
func (a *app) store(ctx context.Context) (*pgxpool.Pool, *machine.Store, error) {
	pool, err := a.pool(ctx)
	if err != nil {
		return nil, nil, err
	}
	return pool, machine.NewStore(pool, a.loaded.Policy.Machine()), nil
}
