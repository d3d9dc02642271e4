package checkpoint

import (
	"math/rand/v2"
	"testing"
	"time"
)

// seeds are the runs of the random tests.
func seeds(t *testing.T) []uint64 {
	if testing.Short() {
		return []uint64{1}
	}
	return []uint64{1, 2, uint64(time.Now().UnixNano())}
}

// The counts are those at the row's position, whatever was committed, rolled back or truncated before it,
// and over every orderly stop and start.
func TestCountsAreExactAtEveryPosition(t *testing.T) {
	for _, seed := range seeds(t) {
		r := setUp(t)
		w := watch(t, r.url, r.slot)
		r.start().streaming()
		s := sample(t, r.pool, r.slot)
		random := rand.New(rand.NewPCG(seed, 99))
		stop := traffic(t, r.pool, seed, 3, true)
		for range 4 {
			wait(t, time.Duration(200+random.IntN(400))*time.Millisecond)
			r.stop()
			before := r.row()
			if confirmed := r.confirmed(); confirmed != before.At {
				t.Errorf("after an orderly stop the server knows %v, the row %v", confirmed, before.At) // lesson 6
			}
			r.start().streaming()
		}
		stop()
		r.counted()
		r.durable()
		s.verify(w, 20)
		if n := r.logs.count("without an announcement"); n != 0 {
			t.Errorf("%d warnings of deletions, though all were announced", n)
		}
		if v, _ := r.book.View(); v.Inexact {
			t.Error("the book says that it is inexact")
		}
	}
}

// wait lets the traffic run: what is tested is what happens at any moment of it.
func wait(t *testing.T, d time.Duration) {
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}
