package torture

import (
	"reflect"
	"testing"
)

// A seed decides everything: else a failure could not be had again.
func TestPlan(t *testing.T) {
	for seed := range uint64(50) {
		at := today()
		if a, b := draw(seed, at, Options{}), draw(seed, at, Options{}); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d has two plans", seed)
		}
	}
	if reflect.DeepEqual(draw(1, today(), Options{}), draw(2, today(), Options{})) {
		t.Error("seeds 1 and 2 have one plan")
	}
}

// A few seeds; make torture runs more.
func TestSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs weir")
	}
	arena := open(t, Options{Program: build(t, "-race"), Dir: t.TempDir()})
	for seed := uint64(1); seed <= 2; seed++ {
		if err := arena.Run(t.Context(), seed); err != nil {
			t.Error(err)
		}
	}
}
