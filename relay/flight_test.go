package relay

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// lesson "bloat": no transaction is open while the provider is being asked, so that a slow provider holds no vacuum back.
// lesson "acknowledged too early": until the provider has answered, the item is leased, and nothing else is written.
func TestNothingIsOpenWhileACallIsInFlight(t *testing.T) {
	db := pgtest.Migrated(t)
	p := newProvider()
	begun, release := make(chan struct{}, 1), make(chan struct{})
	p.during = func(context.Context, []machine.Item) { begun <- struct{}{}; <-release }
	r := start(t, db.URL(), p, nil)
	r.streams(t)
	enqueue(t, db.Pool(), "", 1)
	<-begun
	pgtest.Eventually(t, patience, func() error {
		var open int
		err := db.Pool().QueryRow(t.Context(), `
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR xact_start IS NOT NULL)`).Scan(&open)
		if err == nil && open != 0 {
			err = fmt.Errorf("%d sessions have a transaction open", open)
		}
		return err
	})
	var state machine.State
	var settled bool
	if err := db.Pool().QueryRow(t.Context(), `SELECT state, accepted_at IS NOT NULL OR provider_ref IS NOT NULL FROM weir.deliveries`).Scan(&state, &settled); err != nil {
		t.Fatal(err)
	}
	if state != machine.Leased || settled {
		t.Errorf("in flight: state %s, settled %v, want it leased only", state, settled)
	}
	close(release)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 1})
}

// lesson "TOAST": the log never carries a payload. The exporter gets it from the table, whole, also when the item is tried
// again and the update doesn't touch it.
func TestLargePayloadIsWhole(t *testing.T) {
	db := pgtest.Migrated(t)
	const size = 300_000
	var whole, tries atomic.Int32
	p := newProvider()
	p.say(func(it *machine.Item) exporter.Outcome {
		if strings.Count(string(it.Payload), "ab") == size {
			whole.Add(1)
		}
		if tries.Add(1) == 1 {
			return exporter.Outcome{Kind: exporter.Retry, Code: "again"}
		}
		return exporter.Outcome{Kind: exporter.Accepted}
	})
	r := start(t, db.URL(), p, func(c *Config) { c.Policy = hasty() })
	r.streams(t)
	db.Exec(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
		VALUES ('t', 'large', 'test', '1', jsonb_build_object('text', repeat('ab', $1)))`, size)
	eventually(t, db.Pool(), map[machine.State]int{machine.Accepted: 1})
	if whole.Load() != 2 || tries.Load() != 2 {
		t.Errorf("the payload was whole in %d of %d calls, want 2 of 2", whole.Load(), tries.Load())
	}
}
