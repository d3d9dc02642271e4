package sandbox

import (
	"context"
	"testing"
	"time"
)

// await polls the totals.
func await(t testing.TB, s *Sandbox, done func(Totals) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Await(ctx, done); err != nil {
		t.Fatalf("totals stay at %+v: %v", s.Totals(), err)
	}
}

// waitPending polls until a call holds its idempotency key.
func waitPending(t testing.TB, s *Sandbox) {
	t.Helper()
	await(t, s, func(Totals) bool {
		for _, w := range s.allWorlds() {
			w.mu.Lock()
			n := len(w.saved)
			w.mu.Unlock()
			if n > 0 {
				return true
			}
		}
		return false
	})
}

// waitBusy polls until a call is alone on a lane.
func waitBusy(t testing.TB, s *Sandbox) {
	t.Helper()
	await(t, s, func(Totals) bool {
		for _, w := range s.allWorlds() {
			w.mu.Lock()
			n := len(w.busy)
			w.mu.Unlock()
			if n > 0 {
				return true
			}
		}
		return false
	})
}
