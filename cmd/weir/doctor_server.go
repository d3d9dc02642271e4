package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-relay/weir/migrations"
)

// The versions of Postgres that weir works with, and the newest that it is tested with.
const (
	oldestServer = 15
	newestServer = 18
)

// server checks what the server is, and its clock.
func (d *doctor) server(ctx context.Context) {
	var version int
	var name, encoding string
	var standby bool
	var synchronous, standbys string
	before := time.Now()
	var clock time.Time
	err := d.db.QueryRow(ctx, `
SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding'),
       pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), clock_timestamp()`).
		Scan(&version, &name, &encoding, &standby, &synchronous, &standbys, &clock)
	after := time.Now()
	if err != nil {
		d.trouble("server", err)
		return
	}
	switch major := version / 10000; {
	case major < oldestServer:
		d.add("server", levelFail, fmt.Sprintf("upgrade the server to %d or newer", oldestServer), "Postgres %s has no column lists in publications", name)
	case major > newestServer:
		d.add("server", levelWarn, "look for a newer weir", "Postgres %s is newer than the newest that weir is tested with, %d", name, newestServer)
	default:
		d.add("server", levelOK, "", "Postgres %s", name)
	}
	if encoding != "UTF8" {
		d.add("encoding", levelFail, "use a database with ENCODING 'UTF8'", "the database is in %s; identities are hashes of UTF-8", encoding)
	}
	if standby {
		d.add("primary", levelFail, "point database.url at the primary", "this server is a standby, which can't be written to")
	}
	switch {
	case synchronous == "off":
		d.add("synchronous_commit", levelWarn, "set synchronous_commit = on for the producers' role and weir's",
			"is off: a crash of the server may forget the last commits, also of items that were sent already")
	case standbys != "":
		d.add("synchronous_commit", levelNote, "", "with synchronous_standby_names the relay hears of an item before it can be seen; it looks again until it can")
	}
	d.clock(clock, before, after)
}

// clock compares the two clocks; the answer lies somewhere between before and after.
func (d *doctor) clock(server, before, after time.Time) {
	offset := server.Sub(before.Add(after.Sub(before) / 2))
	slack := after.Sub(before) / 2
	if offset.Abs() <= slack+2*time.Second {
		d.add("clock", levelOK, "", "the server's and this machine's agree within %v", (offset.Abs() + slack).Round(time.Millisecond))
		return
	}
	d.add("clock", levelWarn, "run a time service on both", "the server's is %v off from this machine's: no decision depends on it, but ages and lags that weir shows do", offset.Round(time.Millisecond))
}

// schema checks the migrations. It reports whether there is a schema to check further.
func (d *doctor) schema(ctx context.Context) bool {
	const check = "schema"
	var present bool
	err := d.db.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'weir' AND c.relname = 'deliveries')`).Scan(&present)
	if err != nil {
		d.trouble(check, err)
		return false
	}
	if !present {
		d.add(check, levelFail, "run weir migrate up", "isn't there")
		return false
	}
	versions, err := migrations.Status(ctx, d.config.Database.URL.Reveal())
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		d.add(check, levelNote, "", "is there; this role may not read weir.migrations, so its version is unknown")
		return true
	}
	if err != nil {
		d.trouble(check, err)
		return true
	}
	missing := 0
	for _, v := range versions {
		if !v.Applied {
			missing++
		}
	}
	if missing > 0 {
		d.add(check, levelFail, "run weir migrate up", "lacks %s", plural(missing, "migration"))
	} else {
		d.add(check, levelOK, "", "is at version %d", migrations.Latest())
	}
	return true
}
