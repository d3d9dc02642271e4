package relay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter/null"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/relay"
	"github.com/weir-relay/weir/replication"
)

func TestSmoke(t *testing.T) {
	db := pgtest.Migrated(t)
	pool, err := relay.Open(t.Context(), db.URL(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r, err := relay.New(relay.Config{
		Pool:        pool,
		Replication: &replication.Config{URL: db.URL(), Slot: db.Name()},
		Lanes:       []relay.LaneConfig{{Name: "stripe", Exporter: null.Exporter{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	for i := range 3 {
		db.Exec(t, `INSERT INTO weir.outbox (tenant_key, subject_ref, mode, mapping_version, payload)
			SELECT 't', $1 || g, 'test', '1', '{}' FROM generate_series(1, 5000) g`, fmt.Sprint(i, ":"))
	}
	start := time.Now()
	pgtest.Eventually(t, 20*time.Second, func() error {
		var n int
		if err := db.Pool().QueryRow(ctx, `SELECT count(*) FROM weir.deliveries WHERE state = 'accepted'`).Scan(&n); err != nil {
			return err
		}
		if n != 15000 {
			return fmt.Errorf("%d accepted", n)
		}
		return nil
	})
	t.Log(time.Since(start))
	pgtest.Eventually(t, 20*time.Second, func() error {
		s := r.Status()
		if s.Checkpoint == nil || s.Checkpoint.Counts["stripe"] == nil || s.Checkpoint.Counts["stripe"][2] != 15000 {
			return fmt.Errorf("%+v", s.Checkpoint)
		}
		return nil
	})
	t.Logf("%+v", r.Status().Lanes)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
