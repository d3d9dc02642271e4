package main

import (
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/migrations"
)

func TestMigrate(t *testing.T) {
	db := pgtest.New(t)
	c := newCLI(t, "WEIR_DATABASE_URL="+db.URL())
	c.run("migrate", "status").wants(exitOK, "missing")
	c.run("migrate", "down").wants(exitOK, "No migration is applied")
	c.run("migrate", "up").wants(exitOK, "applied ")
	c.run("migrate", "up").wants(exitOK, "The schema is up to date.")
	c.run("migrate", "status").wants(exitOK, "applied")
	stage(t, db, "a", machine.Pending)
	c.run("migrate", "down").wants(exitOK, "Would undo", "Nothing was changed. Add --yes")
	if n := countItems(t, db); n != 1 {
		t.Errorf("the preview lost the item")
	}
	var got struct{ Undone bool }
	c.run("migrate", "down", "--yes", "--json").json(&got)
	if !got.Undone {
		t.Error("want undone")
	}
	for range migrations.Latest() - 2 {
		c.run("migrate", "down", "--yes").wants(exitOK)
	}
	c.run("migrate", "down", "--yes").wants(exitOK, "weir slot drop")
	c.run("list").wants(exitFailed, "run weir migrate up")
}

func TestSlot(t *testing.T) {
	c, db := onDatabase(t)
	c.run("slot", "status").wants(exitOK, "not there")
	c.run("slot", "drop", "--yes").wants(exitOK, "not there")
	stage(t, db, "a", machine.Pending)
	stage(t, db, "b", machine.Accepted)
	c.run("slot", "create").wants(exitOK, "made slot "+db.Name())
	c.run("slot", "create").wants(exitFailed, "is there already")
	c.run("slot", "status").wants(exitOK, "NOT READ by anything", "keeps")

	// The slot's checkpoint has counted what was there.
	var s status
	c.run("status", "--json").json(&s)
	if s.Counted != "checkpoint" || s.States["stripe"][machine.Pending] != 1 || s.States["stripe"][machine.Accepted] != 1 {
		t.Errorf("got %+v", s)
	}
	stage(t, db, "c", machine.Uncertain)
	c.run("status").wants(exitOK, "Counted by the relay", "1 item waits for a person: weir list --attention")
	c.run("status", "--exact", "--json").json(&s)
	if s.Counted != "now" || s.States["stripe"][machine.Uncertain] != 1 || s.Oldest["stripe"] <= 0 || s.Attention != 1 {
		t.Errorf("got %+v", s)
	}

	c.run("slot", "drop").wants(exitOK, "Nothing was changed")
	c.run("slot", "drop", "--yes").wants(exitOK, "dropped slot "+db.Name())
	c.run("slot", "status").wants(exitOK, "not there")
}

func TestStatusOfNothing(t *testing.T) {
	c, _ := onDatabase(t)
	c.run("status").wants(exitOK, "No items yet.", "the relay makes it when it starts")
}
