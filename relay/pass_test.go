package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

func TestPassIsOneRound(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	kinds := []exporter.Kind{exporter.Accepted, exporter.Retry, exporter.Uncertain, exporter.Rejected, exporter.Quarantined}
	p.say(func(it *machine.Item) exporter.Outcome {
		return exporter.Outcome{Kind: kinds[it.ID%5], Code: "scripted", After: time.Nanosecond}
	})
	r := build(t, db.URL(), p, nil)
	enqueue(t, db.Pool(), "", 30)
	got, err := r.Pass(t.Context(), "stripe", 25)
	if want := (Passed{Claimed: 25, Accepted: 5, Retried: 5, Uncertain: 5, Rejected: 5, Quarantined: 5}); err != nil || got != want {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
	eventually(t, db.Pool(), map[machine.State]int{machine.Pending: 10, machine.Accepted: 5, machine.Uncertain: 5, machine.Rejected: 5, machine.Quarantined: 5})
	for _, bad := range []struct {
		lane  string
		limit int
	}{{"stripe", 0}, {"stripe", -1}, {"nosuch", 1}} {
		if _, err := r.Pass(t.Context(), bad.lane, bad.limit); err == nil {
			t.Errorf("%+v: want an error", bad)
		}
	}
}

func TestPassCountsWhatIsStale(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.say(func(it *machine.Item) exporter.Outcome {
		if it.ID == 1 { // somebody else has settled it meanwhile
			db.Exec(t, `UPDATE weir.deliveries SET from_state = state, state = 'rejected', lease_owner = NULL, lease_expires_at = NULL, last_error = 'x' WHERE id = 1`)
		}
		return exporter.Outcome{Kind: exporter.Accepted}
	})
	r := build(t, db.URL(), p, nil)
	enqueue(t, db.Pool(), "", 2)
	got, err := r.Pass(t.Context(), "stripe", 25)
	if want := (Passed{Claimed: 2, Accepted: 1, Stale: 1}); err != nil || got != want {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
}

// A line of one key that takes longer than the lease is cut where its items could no longer be sent in time.
func TestPassKeepsToItsLeases(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.limits.Timeout = 600 * time.Millisecond
	p.say(func(*machine.Item) exporter.Outcome {
		<-time.After(300 * time.Millisecond)
		return exporter.Outcome{Kind: exporter.Accepted}
	})
	r := build(t, db.URL(), keyedProvider{p}, func(c *Config) {
		c.Policy = machine.DefaultPolicy()
		c.Policy.Lease = time.Second
	})
	enqueue(t, db.Pool(), "", 8)
	got, err := r.Pass(t.Context(), "stripe", 25)
	if err != nil || got.Claimed != 8 || got.Stale != 0 || got.Accepted > 3 || got.Retried != 8-got.Accepted {
		t.Errorf("want two or three sent and the rest handed back, got %+v, %v", got, err)
	}
	var attempts int
	if err := db.Pool().QueryRow(t.Context(), `SELECT sum(attempts) FROM weir.deliveries WHERE state = 'pending'`).Scan(&attempts); err != nil || attempts != 0 {
		t.Errorf("want claims undone, got %d attempts, %v", attempts, err)
	}
}

const insertLinesSQL = `
INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload, source, order_key)
SELECT 't', $1::text || g, 'test', '1', '{}', 's', 'k' || g % $3::int FROM generate_series(1, $2::int) g`

// Each item waits for the one before it in its line, and goes at once when that is settled.
func TestLinesKeepTheirOrder(t *testing.T) {
	for _, tt := range []struct {
		order machine.Order
		keys  int // lines
		n     int
	}{{machine.PerKey, 3, 300}, {machine.PerSource, 3, 150}, {machine.StopTheLine, 3, 150}} {
		t.Run(string(tt.order), func(t *testing.T) {
			t.Parallel()
			db := pgtest.Migrated(t)
			p := newProvider()
			p.limits.Batch = 1
			r := start(t, db.URL(), p, func(c *Config) { c.Lanes[0].Order = tt.order; c.PollInterval = time.Hour })
			r.streams(t)
			begin := time.Now()
			db.Exec(t, insertLinesSQL, "", tt.n, tt.keys)
			eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: tt.n})
			// Without the bell for successors each would wait for seconds.
			if took := time.Since(begin); took > time.Duration(tt.n)*100*time.Millisecond {
				t.Errorf("want each to follow at once, took %v", took)
			}
			last := map[int]int{}
			for _, ref := range p.sentInOrder() {
				var g int
				fmt.Sscan(ref, &g) //nolint:errcheck // the test wrote it
				line := 0
				if tt.order == machine.PerKey {
					line = g % tt.keys
				}
				if g <= last[line] {
					t.Fatalf("%d was sent after %d", g, last[line])
				}
				last[line] = g
			}
		})
	}
}

// A line deeper than the agenda moves as fast as a short one.
func TestDeepLine(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.limits.Batch = 1
	r := start(t, db.URL(), p, func(c *Config) { c.Lanes[0].Order = machine.PerKey; c.PollInterval = time.Hour })
	r.streams(t)
	const moves = 200
	db.Exec(t, insertLinesSQL, "", agendaBound+3000, 1)
	begin := time.Now()
	pgtest.Eventually(t, patience, func() error {
		if _, items := p.most(); items < moves {
			return fmt.Errorf("%d sent", items)
		}
		return nil
	})
	t.Logf("%d items of a line of %d in %v", moves, agendaBound+3000, time.Since(begin))
}

// A line that has stopped goes on when a person has dealt with what stopped it.
func TestStoppedLineGoesOn(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	p.say(func(it *machine.Item) exporter.Outcome {
		if it.SubjectRef == "2" {
			return exporter.Outcome{Kind: exporter.Uncertain, Code: "lost"}
		}
		return exporter.Outcome{Kind: exporter.Accepted}
	})
	r := start(t, db.URL(), p, func(c *Config) { c.Lanes[0].Order = machine.StopTheLine; c.PollInterval = time.Hour })
	r.streams(t)
	enqueue(t, db.Pool(), "", 5)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 1, machine.Uncertain: 1, machine.Pending: 3})
	if err := r.Health(); err != nil {
		t.Errorf("a line that waits for a person: want it healthy, got %v", err)
	}
	db.Exec(t, `UPDATE weir.deliveries SET from_state = state, state = 'accepted', accepted_at = clock_timestamp() WHERE state = 'uncertain'`)
	begin := time.Now()
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 5})
	if took := time.Since(begin); took > lineLongest/2 {
		t.Errorf("want it to go on at once, took %v", took)
	}
}
