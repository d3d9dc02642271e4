package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/internal/pgtest"
)

// lesson "bloat": a transaction that stays open holds vacuum back, and the dead rows pile up. Doctor names whose it is.
func TestDoctorFindsWhatHoldsVacuumBack(t *testing.T) {
	db := pgtest.New(t)
	held, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it only read
	var pid int
	if err := held.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	look := func(limit time.Duration) (warned bool) {
		d := &doctor{db: db.Pool()}
		d.longTransactions(t.Context(), limit)
		for _, f := range d.findings {
			if f.Check != "transactions" || f.Level == levelFail {
				t.Errorf("got %+v", f)
			}
			if strings.Contains(f.What, fmt.Sprintf("process %d ", pid)) {
				warned = f.Level == levelWarn && strings.Contains(f.What, "holds vacuum back") && f.Fix != ""
			}
		}
		return warned
	}
	if look(time.Hour) {
		t.Error("a young transaction is no finding")
	}
	pgtest.Eventually(t, 10*time.Second, func() bool { return look(10 * time.Millisecond) })
}
