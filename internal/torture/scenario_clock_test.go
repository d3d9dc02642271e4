package torture

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The server's clock is set forward by an hour while items are on their way, and back while none are: what waits
// for a time that was read off a clock set back has to wait for that time.
func TestScenarioClock(t *testing.T) {
	slow(t)
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(libraries) == 0 {
		t.Skip("needs libfaketime, which sets one process's clock (Debian and Ubuntu: apt-get install libfaketime)")
	}
	program := build(t)
	set := fakeClock(t, libraries[0])
	a := open(t, Options{Program: program, Dir: t.TempDir()})
	p := plain(0, 2)
	p.Horizon = 20 * time.Hour
	enact(t, a, p, func(ctx context.Context, w *world) error {
		w.stepped = true
		for _, offset := range []string{"+3600", "+0", "-3600", "+7200"} {
			for range 100 {
				if _, err := w.enqueueOne(ctx, w.aim()); err != nil {
					return err
				}
			}
			if offset[0] != '+' || offset == "+0" {
				if err := poll(ctx, func() bool { return w.openItems(ctx) == 0 }); err != nil {
					return err
				}
			}
			if err := set(offset); err != nil {
				return err
			}
			var now time.Time
			if err := w.db().QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
				return err
			}
			w.journal.note("the server's clock is set to %s: it says %s", offset, clock(now))
		}
		for range 100 {
			if _, err := w.enqueueOne(ctx, w.aim()); err != nil {
				return err
			}
		}
		return nil
	})
}

// openItems counts the open items; -1 where they can't be counted.
func (w *world) openItems(ctx context.Context) int {
	n := -1
	_ = w.db().QueryRow(ctx, `SELECT count(*) FROM weir.deliveries WHERE open`).Scan(&n)
	return n
}

// fakeClock gives the servers that this test starts a clock that set moves.
func fakeClock(t *testing.T, library string) (set func(offset string) error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clock")
	// The server's account has to read it.
	for _, dir := range []string{filepath.Dir(file), filepath.Dir(filepath.Dir(file))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	set = func(offset string) error { return os.WriteFile(file, []byte(offset+"\n"), 0o644) }
	if err := set("+0"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKETIME_TIMESTAMP_FILE", file)
	t.Setenv("FAKETIME_NO_CACHE", "1")
	t.Setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
	t.Setenv("LD_PRELOAD", library)
	return set
}
