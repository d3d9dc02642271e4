package checkpoint

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weir-relay/weir/replication"
)

// The environment that makes this binary a victim.
const (
	victimURL  = "WEIR_TEST_VICTIM_URL"
	victimSlot = "WEIR_TEST_VICTIM_SLOT"
)

// victim is a relay's half in a process of its own, to be killed. It says where it streams from.
func victim(url, slot string) int {
	ctx := context.Background()
	pool, err := openPool(ctx, url, "victim "+slot)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	book := NewBook(pool, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	book.interval = 15 * time.Millisecond
	go func() { _ = book.Run(ctx) }()
	stream := replication.New(streamConfig(url, slot, slog.New(slog.NewTextHandler(os.Stdout, nil))), book, book)
	fmt.Fprintln(os.Stderr, stream.Run(ctx))
	return 1
}

// A process that is killed at any moment has counted nothing twice and missed nothing: the next goes on
// from the row, also where the server was told less (lesson 22).
func TestKilledAtAnyMoment(t *testing.T) {
	for _, seed := range seeds(t) {
		r := setUp(t)
		w := watch(t, r.url, r.slot)
		r.start().streaming()
		r.stop()
		s := sample(t, r.pool, r.slot)
		random := rand.New(rand.NewPCG(seed, 7))
		stop := traffic(t, r.pool, seed, 2, true)
		rounds := 20
		if testing.Short() {
			rounds = 5
		}
		for range rounds {
			kill(t, r, time.Duration(random.IntN(150))*time.Millisecond)
		}
		stop()
		r.start().streaming()
		r.counted()
		r.durable()
		s.verify(w, rounds)
		if n := r.stream.Status().Recreations; len(n) != 0 {
			t.Errorf("the slot was made anew: %v", n)
		}
	}
}

// kill starts a victim, lets it stream for so long, and kills it. It demands that the victim began at the
// row's position.
func kill(t *testing.T, r *rig, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimURL+"="+r.url, victimSlot+"="+r.slot)
	cmd.Stderr = r.logs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// A statement that the last one has sent is still run.
	r.eventually(func() error {
		var left int
		err := r.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'victim ' || $1`, r.slot).Scan(&left)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d connections of the last victim are left", left)
		}
		return err
	})
	row := r.row()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	dead := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer dead.Stop()
	for scan := bufio.NewScanner(out); scan.Scan(); {
		if _, rest, ok := strings.Cut(scan.Text(), "replication: streaming\" "); ok {
			if !strings.Contains(rest, "at="+row.At.String()) {
				t.Errorf("the row was at %v, the victim began: %s", row.At, rest)
			}
			go func() {
				for scan.Scan() {
				}
			}()
			wait(t, after)
			return
		}
	}
	t.Fatal("the victim didn't stream")
}
