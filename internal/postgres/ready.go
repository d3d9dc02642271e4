package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	readyTimeout  = time.Minute // recovery after Kill may have to replay much WAL
	pollInterval  = 5 * time.Millisecond
	logTailLength = 4096
)

// waitReady returns when the server answers a query, has ended, or the deadline
// has passed; an error carries the end of the log.
func (c *Cluster) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("server accepts no connection after %v", readyTimeout))
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := c.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.server.done:
			return fmt.Errorf("server ended at its start: %w; its log ends:\n%s", c.server.err, c.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w; its log ends:\n%s", errors.Join(context.Cause(ctx), err), c.LogTail())
		case <-tick.C:
		}
	}
}

func (c *Cluster) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}

// LogTail is the end of the server's log, a few kilobytes, for error messages.
func (c *Cluster) LogTail() string {
	f, err := os.Open(c.Log())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > logTailLength {
		if _, err := f.Seek(-logTailLength, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	tail, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(tail)
}
