package reconcile

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shopspring/decimal"
)

// Whatever was counted and whatever was not, no verdict is ever wrong, and a bucket that agrees has no doubtful item in
// its number.
func TestVerdictsAreNeverWrong(t *testing.T) {
	const runs = 3000
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[Verdict]int{}
	for range runs {
		formula := []Formula{Sum, Count, Last}[random.IntN(3)]
		b := &bucket{}
		var truth tally // what the provider has
		second := int64(0)
		for id := range random.Int64N(4) {
			second += random.Int64N(2)
			u := Usage{Value: decimal.New(random.Int64N(9)-3, -int32(random.IntN(2))), At: unix(second)}
			b.add(id, u.At, u, false)
			truth.add(u)
		}
		counted := map[int64]bool{}
		doubtful := random.Int64N(6)
		if random.IntN(20) == 0 {
			doubtful += maxDoubts
		}
		for i := range doubtful {
			u := Usage{Value: decimal.New(random.Int64N(9)-3, -int32(random.IntN(2))), At: unix(random.Int64N(6))}
			d := Doubt{ID: 100 + i, Value: u.Value, At: u.At}
			if counted[d.ID] = random.IntN(2) == 0; counted[d.ID] {
				truth.add(u)
			}
			b.doubts = append(b.doubts, d)
		}
		numbers := truth.numbers(formula)
		f := judge(b, formula, numbers[random.IntN(len(numbers))])
		some := false
		for _, d := range f.Doubts {
			seen[d.Verdict]++
			some = some || counted[d.ID] && !weight(&d, formula).IsZero()
			if d.Verdict == Counted && !counted[d.ID] || d.Verdict == NotCounted && counted[d.ID] {
				t.Fatalf("%s, found %s, expected %s: item of %s at %d is said to be %s: %s", formula, f.Found, f.Expected, d.Value, d.At.Unix(), d.Verdict, d.Why)
			}
		}
		if formula != Last && f.Standing == Agrees && some {
			t.Fatalf("%s agrees at %s with doubtful items in it: %s", formula, f.Found, fmt.Sprint(f.Doubts))
		}
	}
	if seen[Counted] < runs/100 || seen[NotCounted] < runs/100 || seen[CannotTell] < runs/100 {
		t.Errorf("the runs prove little: %v", seen)
	}
}

func unix(second int64) time.Time { return time.Unix(second, 0).UTC() }
