package replication

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// connection is a replication connection before it streams: it runs commands, and plain SQL by the simple
// protocol.
type connection struct {
	config  Config
	pg      *pgx.Conn
	version int // server_version_num
}

// settings hold for the session. The first ones fix how values read. A role's or a database's own timeouts
// must not end a session that waits for hours on purpose; but one whose process is gone must end, since it
// has the lock of the slot, and outside of a stream wal_sender_timeout doesn't watch it.
var settings = map[string]string{
	"replication":                         "database",
	"client_encoding":                     "UTF8",
	"datestyle":                           "ISO",
	"timezone":                            "UTC",
	"standard_conforming_strings":         "on",
	"statement_timeout":                   "0",
	"lock_timeout":                        "0",
	"idle_in_transaction_session_timeout": "0", // an exported snapshot is an open transaction
	"tcp_keepalives_idle":                 "30",
	"tcp_keepalives_interval":             "10",
}

func connect(ctx context.Context, config Config) (*connection, error) {
	pgxConfig, err := pgx.ParseConfig(config.URL)
	if err != nil {
		return nil, permanent(fmt.Errorf("replication URL: %w", err), "correct it")
	}
	pgxConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	params := pgxConfig.RuntimeParams
	for name, value := range settings {
		params[name] = value
	}
	params["wal_sender_timeout"] = strconv.FormatInt(config.WalSenderTimeout.Milliseconds(), 10) + "ms"
	fillParam(params, "application_name", "weir/"+config.Slot)
	if pgxConfig.ConnectTimeout == 0 {
		pgxConfig.ConnectTimeout = 10 * time.Second
	}
	// While a slot is made nothing is said for hours: only the kernel can tell that the peer is gone.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	pgxConfig.DialFunc = dialer.DialContext
	// A command whose context ends is cancelled at the server too, which otherwise goes on making the slot.
	pgxConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: config.FlushTimeout}
	}
	pgxConfig.ValidateConnect = onPrimary
	pg, err := pgx.ConnectConfig(ctx, pgxConfig)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &connection{config: config, pg: pg}, nil
}

// onPrimary refuses a standby, so that of several hosts in the URL the primary is taken, after a failover
// too. It takes the place of target_session_attrs, which asks in a way that replication connections lack.
func onPrimary(ctx context.Context, pg *pgconn.PgConn) error {
	results, err := pg.Exec(ctx, "SELECT pg_is_in_recovery()").ReadAll()
	switch {
	case err != nil:
		return err
	case len(results) == 1 && len(results[0].Rows) == 1 && string(results[0].Rows[0][0]) == "t":
		return errors.New("the server is a standby; waiting for a primary")
	}
	return nil
}

func fillParam(params map[string]string, name, value string) {
	if params[name] == "" {
		params[name] = value
	}
}

// close says goodbye; a connection that streams is closed by its receiver.
func (c *connection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.pg.Close(ctx)
}

// commandTimeout bounds a command that has nothing to wait for.
const commandTimeout = 15 * time.Second

func (c *connection) brief(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, commandTimeout)
}

// inspect asks about the slot.
func (c *connection) inspect(ctx context.Context) (SlotInfo, error) {
	ctx, cancel := c.brief(ctx)
	defer cancel()
	return Inspect(ctx, c.pg, c.config.Slot)
}

// identify answers which log this is.
func (c *connection) identify(ctx context.Context) (Source, error) {
	ctx, cancel := c.brief(ctx)
	defer cancel()
	id, err := pglogrepl.IdentifySystem(ctx, c.pg.PgConn())
	switch {
	case sqlState(err) == syntaxError:
		return Source{}, permanent(errors.New("identify system: the other end takes no replication commands"),
			"a pooler may stand between: point the replication URL straight at the server")
	case err != nil:
		return Source{}, fmt.Errorf("identify system: %w", err)
	case id.DBName == "":
		return Source{}, permanent(errors.New("identify system: the connection has no database"), "name one in the replication URL")
	}
	return Source{Slot: c.config.Slot, SystemID: id.SystemID, Timeline: id.Timeline}, nil
}

// checkServer demands what logical decoding takes for granted.
func (c *connection) checkServer(ctx context.Context) error {
	ctx, cancel := c.brief(ctx)
	defer cancel()
	var level string
	err := c.pg.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('wal_level')`).
		Scan(&c.version, &level)
	switch {
	case err != nil:
		return fmt.Errorf("check server: %w", err)
	case c.version < 150000:
		return permanent(fmt.Errorf("the server is Postgres %d", c.version/10000), "weir needs 15 or newer")
	case level != "logical":
		return permanent(fmt.Errorf("the server's wal_level is %s", level),
			"set wal_level = logical and restart the server; until then items are found by sweeping")
	}
	if c.version >= 170000 { // an older server would refuse a connection that names this setting
		if _, err := c.pg.Exec(ctx, "SET transaction_timeout = 0"); err != nil {
			return fmt.Errorf("check server: %w", err)
		}
	}
	return nil
}

// tryLock takes the lock under which a slot is looked at, made, dropped and streamed from; false says
// that another process has it. The slot alone is no lock: while its first counts are taken, it is nobody's.
// The lock is asked for again and again instead of waited for, since a waiting statement holds back vacuum.
func (c *connection) tryLock(ctx context.Context) (bool, error) {
	ctx, cancel := c.brief(ctx)
	defer cancel()
	var mine bool
	err := c.pg.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended('weir slot ' || $1, 0))`, c.config.Slot).Scan(&mine)
	if err != nil {
		return false, fmt.Errorf("take the lock of the slot: %w", err)
	}
	return mine, nil
}

// hijack takes the bare connection out, to be read without a watcher for each message.
func (c *connection) hijack(ctx context.Context) (*wire, error) {
	if err := c.pg.PgConn().SyncConn(ctx); err != nil {
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	h, err := c.pg.PgConn().Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	return newWire(h.Conn, h.Frontend, c.config), nil
}
