package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// change is one transaction of the log: how many rows it deleted from each place, and what it announced.
type change struct {
	deleted int
	removed []map[string]map[State]int64
}

// changes reads the log through a slot of the test's own, as the relay's stream would.
func (f *fixture) changes(slot string) []change {
	f.Helper()
	rows, err := f.pool.Query(f.Context(), `
SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', 'weir', 'messages', 'true')`, slot)
	if err != nil {
		f.Fatal(err)
	}
	messages, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		f.Fatal(err)
	}
	var all []change
	var open change
	for _, m := range messages {
		switch m[0] {
		case 'B': // Begin
			open = change{}
		case 'D': // Delete
			open.deleted++
		case 'M': // Message: flags 1 (transactional), LSN 8, prefix with NUL, length 4, content
			prefix, rest, _ := bytes.Cut(m[10:], []byte{0})
			if m[1] != 1 || string(prefix) != RemovedPrefix {
				f.Fatalf("message: want transactional %s, got flags %d, prefix %s", RemovedPrefix, m[1], prefix)
			}
			var counts map[string]map[State]int64
			if err := json.Unmarshal(rest[4:], &counts); err != nil {
				f.Fatalf("message %q: %v", rest[4:], err)
			}
			open.removed = append(open.removed, counts)
		case 'C': // Commit
			if open.deleted > 0 || len(open.removed) > 0 {
				all = append(all, open)
			}
		}
	}
	return all
}

// populate puts one item into every state, for two exporters, and two abandoned ones; all long ago.
func (f *fixture) populate() (ids map[State]int64, abandoned []int64) {
	f.Helper()
	ids = map[State]int64{}
	for _, state := range States {
		ids[state] = f.stand(state).ID
	}
	for _, state := range []State{Rejected, Quarantined} {
		id := f.stage(f.pool, intent{ref: "abandoned-" + string(state), quarantine: "no_customer"})
		if state == Rejected {
			id = f.enqueue("abandoned-too")
			f.settle(Rejected, f.claimed(id).Ref())
		}
		if err := f.Abandon(f.Context(), id, state, operator); err != nil {
			f.Fatal(err)
		}
		abandoned = append(abandoned, id)
	}
	hook := f.stage(f.pool, intent{ref: "hook", exporter: "webhook"})
	items, err := f.Claim(f.Context(), Claimer{Exporter: "webhook", Owner: "w"}, []int64{hook})
	if err != nil || len(items) != 1 {
		f.Fatalf("claim: %v, %v", items, err)
	}
	f.settle(Confirmed, items[0].Ref())
	for id := int64(1); id <= hook; id++ {
		f.pass(id, 100*time.Hour)
	}
	return ids, abandoned
}

// left lists the states of the items that are there, in both tables.
func (f *fixture) left() map[State]int {
	f.Helper()
	rows, err := f.pool.Query(f.Context(), `
SELECT coalesce(d.state, 'no delivery') || CASE WHEN o.id IS NULL THEN ' without intent' ELSE '' END
  FROM weir.outbox o FULL JOIN weir.deliveries d USING (id)`)
	if err != nil {
		f.Fatal(err)
	}
	states, err := pgx.CollectRows(rows, pgx.RowTo[State])
	if err != nil {
		f.Fatal(err)
	}
	counts := map[State]int{}
	for _, s := range states {
		counts[s]++
	}
	return counts
}

// Exactly what a transaction removes, it announces. lesson 24
func TestRemoveAnnouncesWhatItRemoves(t *testing.T) {
	type counts = map[string]map[State]int64
	tests := map[string]struct {
		retention Retention
		removed   counts
	}{
		"confirmed": {Retention{Keep: time.Hour},
			counts{"stripe": {Confirmed: 1, Rejected: 1, Quarantined: 1}, "webhook": {Confirmed: 1}}},
		"accepted too": {Retention{Keep: time.Hour, Accepted: true},
			counts{"stripe": {Accepted: 1, Confirmed: 1, Rejected: 1, Quarantined: 1}, "webhook": {Confirmed: 1}}},
		"nothing is old enough": {Retention{Keep: 101 * time.Hour, Accepted: true}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, DefaultPolicy())
			f.populate()
			want := f.left()
			f.slot()
			n, err := f.Remove(t.Context(), tt.retention, 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			var announced int64
			for _, states := range tt.removed {
				for state, k := range states {
					announced += k
					if want[state] -= int(k); want[state] == 0 {
						delete(want, state)
					}
				}
			}
			if n != announced {
				t.Errorf("want %d removed, got %d", announced, n)
			}
			if got := f.left(); !reflect.DeepEqual(got, want) {
				t.Errorf("want %v left, got %v", want, got)
			}
			log := f.changes(f.db.Name())
			if tt.removed == nil {
				if len(log) != 0 {
					t.Errorf("nothing was removed, and yet the log has %+v", log)
				}
				return
			}
			wantLog := []change{{int(announced), []map[string]map[State]int64{tt.removed}}}
			if !reflect.DeepEqual(log, wantLog) {
				t.Errorf("log: want %+v, got %+v", wantLog, log)
			}
			if again, err := f.Remove(t.Context(), tt.retention, 0, 1000); err != nil || again != 0 {
				t.Errorf("again: want nothing, got %d, %v", again, err)
			}
		})
	}
}

// slot starts to keep the log; the database's end drops it.
func (f *fixture) slot() {
	f.Helper()
	f.db.Exec(f, `SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, f.db.Name())
}

// A removal that is rolled back announces nothing.
func TestRemoveRolledBackAnnouncesNothing(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	f.populate()
	before := f.left()
	f.slot()
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if n, err := NewStore(tx, DefaultPolicy()).Remove(t.Context(), Retention{}, 0, 1000); err != nil || n == 0 {
		t.Fatalf("remove: %d, %v", n, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log := f.changes(f.db.Name()); len(log) != 0 {
		t.Errorf("the log has %+v", log)
	}
	if got := f.left(); !reflect.DeepEqual(got, before) {
		t.Errorf("want %v left, got %v", before, got)
	}
}

// Only the span is touched, without its lower end, and what somebody else has locked is left for later.
func TestRemoveSpan(t *testing.T) {
	f := newFixture(t, DefaultPolicy())
	const n = 6
	f.backlog(n)
	items, err := f.Sweep(t.Context(), stripeOwner(1), 0, n)
	if err != nil || len(items) != n {
		t.Fatalf("sweep: %v, %v", items, err)
	}
	for i := range items {
		f.settle(Confirmed, items[i].Ref())
	}
	lock, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(context.WithoutCancel(t.Context()))
	if _, err := lock.Exec(t.Context(), `SELECT FROM weir.deliveries WHERE id = 4 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if gone, err := f.Remove(t.Context(), Retention{}, 2, 5); err != nil || gone != 2 {
		t.Errorf("(2, 5] with 4 locked: want 2 removed, got %d, %v", gone, err)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if gone, err := f.Remove(t.Context(), Retention{}, 2, 5); err != nil || gone != 1 {
		t.Errorf("afterwards: want 1 removed, got %d, %v", gone, err)
	}
	if got := f.left(); got[Confirmed] != 3 {
		t.Errorf("want 1, 2 and 6 left, got %v", got)
	}
}
