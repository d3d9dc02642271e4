package pgtest

import (
	"errors"
	"testing"
	"time"
)

const eventuallyInterval = 5 * time.Millisecond

// Eventually polls until the condition is true, or its error nil, and fails the
// test with the last error when the timeout has passed. The condition is asked
// at least once, and always by the calling goroutine.
func Eventually[F func() bool | func() error](t testing.TB, timeout time.Duration, condition F) {
	t.Helper()
	ask := asError(condition)
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(eventuallyInterval)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not within %v: %v", timeout, err)
		case <-tick.C:
		}
	}
}

func asError(condition any) func() error {
	switch f := condition.(type) {
	case func() error:
		return f
	case func() bool:
		return func() error {
			if f() {
				return nil
			}
			return errors.New("condition is false")
		}
	default:
		panic("pgtest: Eventually takes a func() bool or a func() error")
	}
}
