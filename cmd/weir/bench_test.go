package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// What a bench prints depends on the machine; that it works, and which fields programs may read, does not.
func TestBench(t *testing.T) {
	for _, test := range []struct {
		args   string
		fields string // of the JSON
	}{
		{"latency --rate 400 --rounds 1 --slice 250ms --settled 1000",
			"floor floor_claimed floor_expense goal met producer_late_ms rate ratio rounds settled_before weir weir_accepted weir_claimed weir_expense weir_unseen_ratio"},
		{"drain --items 3000 --rounds 1",
			"ceiling ceiling_expense ceiling_rates goal items met ratio rounds settled_before stream wal weir weir_expense weir_rates"},
		{"drain --items 3000 --rounds 1 --no-stream",
			"ceiling ceiling_expense ceiling_rates goal items met ratio rounds settled_before stream wal weir weir_expense weir_rates"},
		{"idle --for 1s",
			"checkpoint_per_minute expense goal met other_per_minute others seconds status_per_minute"},
		{"memory --items 2000 --hold 100ms",
			"empty_bytes goal items live_max_bytes met restarted_max_bytes"},
		{"soak --rate 200 --for 1s --latency 20ms",
			"accepted arrived billed_twice expense goal items lost met producer_late_ms provider_latency_ms rate relay_cores seconds settled_before stale_writes stream"},
	} {
		t.Run(test.args, func(t *testing.T) {
			c := newCLI(t)
			var found map[string]json.RawMessage
			c.run(append(strings.Fields("bench --json "), strings.Fields(test.args)...)...).wants(exitOK).json(&found)
			if got := strings.Join(slices.Sorted(maps.Keys(found)), " "); got != test.fields {
				t.Errorf("fields: got\n%s\nwant\n%s", got, test.fields)
			}
		})
	}
}

// A bench fills the database that it is given, so that must be empty, or somebody must have said so.
func TestBenchRefuses(t *testing.T) {
	c, db := onDatabase(t)
	db.Exec(t, "INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload) VALUES ('t', 'r', 'test', '1', '{}')")
	r := c.run("bench", "idle", "--database-url", db.URL())
	r.wants(exitFailed, "it takes a private cluster")
	r = c.run("bench", "drain", "--database-url", db.URL())
	if r.code != exitFailed || !strings.Contains(r.stderr, "--force") && !strings.Contains(r.stderr, "track_commit_timestamp") {
		t.Errorf("exit code %d, want %d and a hint:\n%s", r.code, exitFailed, r.stderr)
	}
}
