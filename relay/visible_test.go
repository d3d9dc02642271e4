package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-relay/weir/exporter/null"
	"github.com/weir-relay/weir/internal/pgtest"
	"github.com/weir-relay/weir/machine"
)

// The walsender ships a commit at its flush; with a synchronous standby that doesn't answer, the rows stay invisible
// for as long. A wake must live that long, and so must a sweep that stands for wakes that didn't fit.
//
// lessons 1, 2
func TestWakesBeforeTheRowsAreVisible(t *testing.T) {
	for name, n := range map[string]int{"few": 10, "more than the agenda holds": agendaBound + 2000} {
		t.Run(name, func(t *testing.T) {
			server, pool := private(t, nil)
			url := server.URL("postgres")
			if url[len(url)-1] != '?' {
				url += "&"
			}
			// The relay's own commits don't wait for the standby.
			r := start(t, url+"synchronous_commit=local", null.Exporter{}, func(c *Config) { c.PollInterval = time.Hour })
			r.streams(t)
			if err := server.Set(t.Context(), "synchronous_standby_names", "nobody"); err != nil {
				t.Fatal(err)
			}
			committed := make(chan error, 1)
			go func() {
				_, err := pool.Exec(t.Context(), insertSQL, "", n)
				committed <- err
			}()
			pgtest.Eventually(t, patience, func() error {
				l := r.Status().Lanes[0]
				if l.Later < min(n, 1000) || n > agendaBound && !l.Sweeping {
					return fmt.Errorf("no wake waits for its row: %+v", l)
				}
				return nil
			})
			got, err := states(t.Context(), pool)
			if err != nil || len(got) != 0 {
				t.Fatalf("want no row visible, got %v, %v", got, err)
			}
			if err := server.Set(t.Context(), "synchronous_standby_names", ""); err != nil {
				t.Fatal(err)
			}
			if err := <-committed; err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			eventually(t, pool, map[machine.State]int{machine.Accepted: n})
			if took := time.Since(begin); n < 100 && took > hiddenLongest+4*time.Second {
				t.Errorf("want them sent within %v, took %v", hiddenLongest, took)
			}
			pgtest.Eventually(t, patience, func() error {
				if l := r.Status().Lanes[0]; l.Ready+l.Later > 0 || l.Sweeping {
					return fmt.Errorf("not idle: %+v", l)
				}
				return nil
			})
		})
	}
}
