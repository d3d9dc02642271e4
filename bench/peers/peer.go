package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// enqueue stages items as part of a transaction, as a producer does that uses the peer.
type enqueue func(ctx context.Context, tx pgx.Tx, items []item) error

// peer is one way to deliver, with its settings.
type peer struct {
	name     string
	settings string
	// prepare makes the tables.
	prepare func(context.Context, *pgxpool.Pool) error
	// producer makes what stages items.
	producer func(*pgxpool.Pool) (enqueue, error)
	// work delivers until the context ends. nil: `weir run` does.
	work func(context.Context, *pgxpool.Pool, deliver) error
	// open is the SQL that says whether an item isn't recorded as done.
	open string
	// finished is the SQL that says when the last was, by the commit that did so, and for how many that holds.
	finished string
}

// peers are weir, then the others, each as it comes and tuned.
func peers() []peer {
	return []peer{
		weir(),
		riverPeer("defaults, 100 workers", riverDefaults()),
		riverPeer("like its own benchmark: fetch each 2–20 ms, 2,000 workers", riverTuned()),
		watermillPeer("defaults: poll 1 s, batches of 100", watermillDefaults),
		watermillPeer("poll 10 ms, batches of 1,000", watermillTuned),
		pollerPeer("every 200 ms, batches of 100, one call at a time", pollerPlain),
		pollerPeer("every 20 ms, batches of 1,000, 16 calls at a time", pollerTuned),
	}
}

// quiet is the libraries' logger: it says what goes wrong.
func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (p peer) String() string { return p.name + " (" + p.settings + ")" }
