package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// DB is what Inspect asks: a pgx connection or pool.
type DB interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SlotInfo is what the server says of a slot. Fields that the server's version doesn't have are zero.
type SlotInfo struct {
	Exists        bool       `json:"exists"`
	Logical       bool       `json:"logical"`
	Temporary     bool       `json:"temporary"`
	Plugin        string     `json:"plugin"`
	Database      string     `json:"database"`
	Active        bool       `json:"active"`
	ActivePID     int32      `json:"active_pid"`
	Confirmed     LSN        `json:"confirmed"`      // confirmed_flush_lsn; 0 while the slot is being created
	ServerLSN     LSN        `json:"server_lsn"`     // where the server writes now
	LagBytes      int64      `json:"lag_bytes"`      // from Confirmed to ServerLSN
	RetainedBytes int64      `json:"retained_bytes"` // from restart_lsn to ServerLSN: the WAL that the slot keeps on disk
	SafeBytes     *int64     `json:"safe_bytes"`     // safe_wal_size; nil: no limit is set, or the slot is lost
	WALStatus     string     `json:"wal_status"`     // reserved, extended, unreserved or lost
	InactiveSince *time.Time `json:"inactive_since"` // 17 and newer; nil while active
	Invalidation  string     `json:"invalidation"`   // invalidation_reason, 17 and newer
	Failover      bool       `json:"failover"`       // 17 and newer
}

// Lost says that the slot can't be read any more: WAL that it needs is gone, or it was invalidated.
func (s SlotInfo) Lost() bool {
	return s.Exists && (s.WALStatus == "lost" || s.Invalidation != "")
}

// The columns that only newer servers have are taken from the row as JSON, where a missing one is NULL.
const inspectSQL = `
WITH server AS (
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS lsn
)
SELECT s.slot_type = 'logical',
       s.temporary,
       coalesce(s.plugin::text, ''),
       coalesce(s.database::text, ''),
       s.active,
       coalesce(s.active_pid, 0),
       coalesce(s.confirmed_flush_lsn - '0/0', 0)::bigint,
       coalesce(server.lsn - '0/0', 0)::bigint,
       coalesce(server.lsn - s.confirmed_flush_lsn, 0)::bigint,
       coalesce(server.lsn - s.restart_lsn, 0)::bigint,
       s.safe_wal_size,
       coalesce(s.wal_status, ''),
       (to_jsonb(s)->>'inactive_since')::timestamptz,
       coalesce(to_jsonb(s)->>'invalidation_reason', ''),
       coalesce((to_jsonb(s)->>'failover')::boolean, false)
  FROM pg_catalog.pg_replication_slots s, server
 WHERE s.slot_name = $1::text::name`

// Inspect asks the server about a slot. One that isn't there is no error: Exists is false.
func Inspect(ctx context.Context, db DB, slot string) (SlotInfo, error) {
	info := SlotInfo{Exists: true}
	var confirmed, server int64
	err := db.QueryRow(ctx, inspectSQL, slot).Scan(&info.Logical, &info.Temporary, &info.Plugin, &info.Database,
		&info.Active, &info.ActivePID, &confirmed, &server, &info.LagBytes, &info.RetainedBytes, &info.SafeBytes,
		&info.WALStatus, &info.InactiveSince, &info.Invalidation, &info.Failover)
	if errors.Is(err, pgx.ErrNoRows) {
		return SlotInfo{}, nil
	}
	if err != nil {
		return SlotInfo{}, fmt.Errorf("inspect slot %s: %w", slot, err)
	}
	info.Confirmed, info.ServerLSN = LSN(confirmed), LSN(server)
	return info, nil
}

// checkOwn refuses a slot that can't be weir's, before it is read or dropped.
func (c *connection) checkOwn(slot SlotInfo) error {
	if slot.Exists && (!slot.Logical || slot.Temporary || slot.Plugin != "pgoutput" || slot.Database != c.pg.Config().Database) {
		return permanent(fmt.Errorf("slot %s is not weir's: plugin %q, database %q", c.config.Slot, slot.Plugin, slot.Database),
			"configure another slot name")
	}
	return nil
}

// create makes the slot, and counts what is there at its beginning. It returns once every transaction
// that was running at its start has ended.
//
// THE ORDER: the snapshot that CREATE_REPLICATION_SLOT exports lives until the connection's next command,
// so the connection stays idle until Rebase has returned.
func (c *connection) create(ctx context.Context, ledger Ledger, source Source) (LSN, error) {
	made, err := pglogrepl.ParseCreateReplicationSlot(c.pg.PgConn().Exec(ctx, c.createCommand(source.Slot)))
	if err != nil {
		return 0, fmt.Errorf("create slot: %w", err)
	}
	at, err := pglogrepl.ParseLSN(made.ConsistentPoint)
	if err != nil {
		return 0, fmt.Errorf("create slot: %w", err)
	}
	if err := ledger.Rebase(ctx, source, at, made.SnapshotName); err != nil {
		// Without counts the slot is of no use, and would keep WAL while nobody reads it.
		return 0, errors.Join(fmt.Errorf("%w: count at the new slot's snapshot: %w", errLedger, err), c.drop(ctx, source.Slot))
	}
	return at, nil
}

// createCommand asks for a slot that is synchronised to standbys, where the server's version has such.
func (c *connection) createCommand(slot string) string {
	options := "SNAPSHOT 'export'"
	if c.version >= 170000 && !c.config.NoFailover {
		options += ", FAILOVER true"
	}
	return fmt.Sprintf("CREATE_REPLICATION_SLOT %s LOGICAL pgoutput (%s)", slot, options)
}

// drop removes the slot, which must be nobody's at the moment.
func (c *connection) drop(ctx context.Context, slot string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.FlushTimeout)
	defer cancel()
	_, err := c.pg.PgConn().Exec(ctx, "DROP_REPLICATION_SLOT "+slot).ReadAll()
	if err != nil && sqlState(err) != undefinedObject {
		return fmt.Errorf("drop slot: %w", err)
	}
	return nil
}
