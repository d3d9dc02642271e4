package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-relay/weir/replication"
)

// stream checks what the doorbell needs.
func (d *doctor) stream(ctx context.Context) {
	slot, err := replication.Inspect(ctx, d.db, d.config.Replication.Slot)
	if err != nil {
		d.trouble("slot", err)
		return
	}
	d.walSettings(ctx, slot)
	d.publication(ctx)
	d.slot(slot)
	d.probe(ctx)
}

// walSettings checks the server's settings for replication.
func (d *doctor) walSettings(ctx context.Context, slot replication.SlotInfo) {
	var level string
	var slots, usedSlots, senders, usedSenders int
	var keep int64
	err := d.db.QueryRow(ctx, `
SELECT current_setting('wal_level'),
       current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),
       current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_replication),
       (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size')`).
		Scan(&level, &slots, &usedSlots, &senders, &usedSenders, &keep)
	if err != nil {
		d.trouble("wal_level", err)
		return
	}
	if level != "logical" {
		d.add("wal_level", levelFail, "set wal_level = logical and restart the server (managed: the parameter for logical replication), or replication.enabled: false",
			"is %s: the log can't be read; weir sweeps the table instead", level)
	} else {
		d.add("wal_level", levelOK, "", "is logical")
	}
	if !slot.Exists && usedSlots >= slots {
		d.add("max_replication_slots", levelFail, "raise it and restart the server, or drop a slot that nobody reads", "all %d are taken", slots)
	}
	if !slot.Active && usedSenders >= senders {
		d.add("max_wal_senders", levelFail, "raise it and restart the server", "all %d are taken", senders)
	}
	fuse := d.config.Replication.Fuse
	switch {
	case keep < 0 && fuse == 0:
		d.add("max_slot_wal_keep_size", levelWarn, "set it, or replication.fuse", "has no limit, and neither has the fuse: a slot that nobody reads fills the server's disk")
	case keep < 0:
		d.add("max_slot_wal_keep_size", levelNote, "set it to what the disk can spare", "has no limit: the fuse (%v) protects the disk only while weir runs", fuse)
	case keep < 1024: // MB
		d.add("max_slot_wal_keep_size", levelWarn, "raise it to some GB", "is %d MB: a short stop of the relay loses the slot, and the next start counts everything anew", keep)
	default:
		d.add("max_slot_wal_keep_size", levelOK, "", "is %d MB", keep)
	}
}

// publication checks that there is one; package replication checks what is in it when it connects.
func (d *doctor) publication(ctx context.Context) {
	name := d.config.Replication.Publication
	var exists bool
	var columns int
	err := d.db.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1 AND pubinsert AND pubupdate AND pubdelete AND pubtruncate),
       coalesce((SELECT count(*) FROM pg_publication_tables t, unnest(t.attnames) a
                  WHERE t.pubname = $1 AND t.schemaname = 'weir' AND t.tablename = 'deliveries' AND t.rowfilter IS NULL
                    AND a IN ('id', 'exporter', 'state', 'from_state', 'next_attempt_at', 'lease_expires_at')), 0)`, name).Scan(&exists, &columns)
	switch {
	case err != nil:
		d.trouble("publication", err)
	case !exists || columns < 6:
		d.add("publication", levelFail, "run weir migrate up, or correct it with ALTER PUBLICATION; never drop it while a slot is there",
			"%s doesn't publish what the relay reads of weir.deliveries", name)
	default:
		d.add("publication", levelOK, "", "%s publishes weir.deliveries", name)
	}
}

// slot checks the slot's health: that it exists says nothing (lesson 12).
func (d *doctor) slot(s replication.SlotInfo) {
	name := d.config.Replication.Slot
	switch {
	case !s.Exists:
		d.add("slot", levelNote, "", "%s isn't there; the relay makes it when it starts", name)
	case s.Lost():
		d.add("slot", levelWarn, "start the relay: it makes a new one, and finds by sweeping what it missed", "%s is lost (%s %s)", name, s.WALStatus, s.Invalidation)
	case !s.Logical || s.Plugin != "pgoutput":
		d.add("slot", levelFail, "choose another name with replication.slot", "%s is somebody else's: it isn't a slot of pgoutput", name)
	case !s.Active:
		since := ""
		if s.InactiveSince != nil {
			since = " since " + s.InactiveSince.UTC().Format(time.RFC3339)
		}
		d.add("slot", levelWarn, "start the relay, or drop the slot with weir slot drop", "nothing reads %s%s; the server keeps %s of log for it", name, since, bytesText(s.RetainedBytes))
	case s.WALStatus == "unreserved":
		d.add("slot", levelWarn, "raise max_slot_wal_keep_size", "%s is about to be lost: it keeps %s of log", name, bytesText(s.RetainedBytes))
	default:
		d.add("slot", levelOK, "", "%s is read by process %d and keeps %s of log", name, s.ActivePID, bytesText(s.RetainedBytes))
	}
}

// probe connects as the relay would. Catalogs don't tell who may: managed servers have roles of their own for
// it (lesson 19), and a pooler may stand between (lesson 20).
func (d *doctor) probe(ctx context.Context) {
	const check = "replication"
	settings, err := pgconn.ParseConfig(d.config.Database.ReplicationURL.Reveal())
	if err != nil {
		d.trouble(check, err)
		return
	}
	settings.RuntimeParams["replication"] = "database"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, settings)
	if err != nil {
		d.add(check, levelFail, probeFix(err), "can't connect for replication: %v", err)
		return
	}
	defer conn.Close(ctx) //nolint:errcheck // it was only a probe
	system, err := pglogrepl.IdentifySystem(ctx, conn)
	if err != nil {
		d.add(check, levelFail, "point database.replication_url straight at the server: a pooler may stand between", "the connection doesn't speak replication: %v", err)
		return
	}
	d.sameDatabase(ctx, system)
}

// sameDatabase checks that both connection strings lead to one place.
func (d *doctor) sameDatabase(ctx context.Context, system pglogrepl.IdentifySystemResult) {
	var id, name string
	err := d.db.QueryRow(ctx, `SELECT system_identifier::text, current_database() FROM pg_control_system()`).Scan(&id, &name)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "42501": // the provider keeps it from this role
		d.add("replication", levelOK, "", "connects")
	case err != nil:
		d.trouble("replication", err)
	case id != system.SystemID || name != system.DBName:
		d.add("replication", levelFail, "make them name the same database",
			"database.url leads to database %s of system %s, database.replication_url to %s of %s", name, id, system.DBName, system.SystemID)
	default:
		d.add("replication", levelOK, "", "connects")
	}
}

func probeFix(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return "check database.replication_url: it must be the server's own address"
	}
	switch pg.Code {
	case "42501", "28000":
		return "ALTER ROLE … REPLICATION, or the provider's role for it (rds_replication, azure_replication …); pg_hba.conf must allow it too"
	case "53300":
		return "raise max_wal_senders"
	case "08P01":
		return "point database.replication_url straight at the server: a pooler stands between"
	}
	if hint := explain(err); hint != "" {
		return hint
	}
	return fmt.Sprintf("see SQLSTATE %s in the manual of Postgres", pg.Code)
}
