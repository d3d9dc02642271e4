package main

import (
	"strconv"
	"testing"

	"github.com/weir-relay/weir/machine"
)

func arg(n int64) string { return strconv.FormatInt(n, 10) }

func TestRequeue(t *testing.T) {
	c, db := onDatabase(t)
	a := stage(t, db, "a", machine.Quarantined)
	b := stage(t, db, "b", machine.Quarantined)
	done := stage(t, db, "c", machine.Accepted)

	c.run("requeue", arg(a)).wants(exitOK, "Would requeue 1 item. Nothing was changed. Add --yes")
	if got := stateOf(t, db, a); got != machine.Quarantined {
		t.Errorf("the preview moved the item: %s", got)
	}
	c.run("requeue", arg(a), "--yes").wants(exitUsage, "--reason: say why")
	c.run("requeue", arg(a), arg(done), "99", "--yes", "--reason", "meter made", "--actor", "ann").wants(exitFindings,
		"requeue: 1 item moved, by ann", "item 3: it is accepted: requeue takes items that are quarantined", "item 99: there is no such item")
	if got := stateOf(t, db, a); got != machine.Pending {
		t.Errorf("got %s, want pending", got)
	}
	c.run("requeue", "--quarantine-reason", "other", "--yes", "--reason", "r").wants(exitOK, "0 items moved")
	c.run("requeue", "--quarantine-reason", "unknown_meter", "--yes", "--reason", "r").wants(exitOK, "1 item moved")
	if got := stateOf(t, db, b); got != machine.Pending {
		t.Errorf("got %s, want pending", got)
	}
	c.run("requeue").wants(exitUsage, "name items by id or identifier, or filter them")
	c.run("requeue", "1", "--tenant", "t").wants(exitUsage, "not both")
}

func TestRecover(t *testing.T) {
	c, db := onDatabase(t)
	for as, state := range map[string]machine.State{"accepted": machine.Accepted, "pending": machine.Pending, "rejected": machine.Rejected} {
		item := stage(t, db, as, machine.Uncertain)
		c.run("recover", arg(item), "--as", as).wants(exitOK, "Would recover 1 item")
		var got struct {
			Performed bool
			Items     []deed
		}
		c.run("recover", arg(item), "--as", as, "--yes", "--reason", "looked", "--json").wants(exitOK).json(&got)
		if !got.Performed || len(got.Items) != 1 || !got.Items[0].Done || got.Items[0].To != state {
			t.Errorf("got %+v", got)
		}
		if now := stateOf(t, db, item); now != state {
			t.Errorf("--as %s: got %s", as, now)
		}
	}
	c.run("recover", "1", "--yes").wants(exitUsage, "--yes goes with --as")
	c.run("recover", "1", "--as", "accepted", "--apply").wants(exitUsage, "leave --as out")
	c.run("recover", "1", "--as", "lost").wants(exitUsage, "accepted, pending or rejected")

	old := stage(t, db, "old", machine.Uncertain)
	db.Exec(t, `ALTER TABLE weir.deliveries DISABLE TRIGGER transition`)
	db.Exec(t, `UPDATE weir.deliveries SET first_attempt_at = first_attempt_at - interval '30 hours' WHERE id = $1`, old)
	db.Exec(t, `ALTER TABLE weir.deliveries ENABLE TRIGGER transition`)
	c.run("recover", arg(old), "--as", "pending").wants(exitOK, "CAUTION", "bills it a second time")
	c.run("recover", arg(old), "--as", "accepted").wants(exitOK, "Would recover")
}

func TestAbandon(t *testing.T) {
	c, db := onDatabase(t)
	rejected := stage(t, db, "a", machine.Rejected)
	stage(t, db, "b", machine.Quarantined)
	pending := stage(t, db, "c", machine.Pending)
	c.run("abandon", arg(rejected)).wants(exitOK, "CAUTION", "never billed", "Nothing was changed")
	c.run("abandon", "--tenant", "t1", "--yes", "--reason", "written off").wants(exitOK, "2 items moved")
	c.run("abandon", arg(rejected), "--yes", "--reason", "again").wants(exitFindings, "it is abandoned")
	c.run("abandon", arg(pending)).wants(exitFindings, "abandon takes items that are rejected or quarantined")
	c.run("list", "--attention").wants(exitOK, "No item matches.")
	c.run("list", "--state", "rejected").wants(exitOK, "No item matches.")
	c.run("list", "--state", "rejected", "--abandoned").wants(exitOK, "abandoned: written off")
}

func TestActInPages(t *testing.T) {
	c, db := onDatabase(t)
	db.Exec(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload, quarantine_reason)
		SELECT 't1', 'r' || n, 'test', '1', '{}', 'hold' FROM generate_series(1, $1) n`, pageSize+5)
	c.run("requeue", "--tenant", "t1").wants(exitOK, "… and 985 more", "Would requeue 1005 items")
	c.run("requeue", "--tenant", "t1", "--limit", "3", "--yes", "--reason", "r").wants(exitOK, "3 items moved")
	c.run("requeue", "--tenant", "t1", "--yes", "--reason", "r").wants(exitOK, "1002 items moved")
}

func TestGC(t *testing.T) {
	c, db := onDatabase(t)
	for _, state := range machine.States {
		stage(t, db, "old-"+string(state), state)
	}
	c.run("abandon", "--tenant", "t1", "--error", "http_500", "--yes", "--reason", "r").wants(exitOK, "1 item moved")
	db.Exec(t, `ALTER TABLE weir.deliveries DISABLE TRIGGER transition`)
	db.Exec(t, `UPDATE weir.deliveries SET accepted_at = accepted_at - interval '50 days', confirmed_at = confirmed_at - interval '50 days',
		abandoned_at = abandoned_at - interval '50 days'`)
	db.Exec(t, `ALTER TABLE weir.deliveries ENABLE TRIGGER transition`)
	stage(t, db, "new-confirmed", machine.Confirmed)

	c.run("gc", "--keep", "1d", "--yes").wants(exitUsage, "35 days", "--force")
	c.run("gc", "--keep", "soon").wants(exitUsage, "not a duration")
	c.run("gc").wants(exitOK, "confirmed", "abandoned", "Would remove 2 items", "Nothing was changed")
	c.run("gc", "--accepted").wants(exitOK, "Would remove 3 items")
	if n := countItems(t, db); n != 8 {
		t.Errorf("the preview removed items: %d are left of 8", n)
	}
	c.run("gc", "--keep", "60d", "--yes").wants(exitOK, "removed 0 items")
	c.run("gc", "--accepted", "--yes", "--span", "2").wants(exitOK, "removed 3 items")
	if n := countItems(t, db); n != 5 {
		t.Errorf("%d items are left, want 5", n)
	}
	var got struct {
		Performed bool
		Items     int64
	}
	c.run("gc", "--keep", "0s", "--force", "--yes", "--json").json(&got)
	if !got.Performed || got.Items != 1 {
		t.Errorf("got %+v", got)
	}
}
