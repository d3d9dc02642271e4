package machine

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
)

// randomCounts applies up to 20 random moves.
func randomCounts(random *rand.Rand) Counts {
	c := Counts{}
	for range random.IntN(20) {
		c.Add([]string{"stripe", "webhook", "null"}[random.IntN(3)], States[random.IntN(len(States))], random.Int64N(7)-3)
	}
	return c
}

func TestCountsLaws(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		c := randomCounts(random)
		copied := c.Clone()
		if !c.Equal(copied) || !copied.Equal(c) || !c.Equal(c) {
			t.Fatalf("a clone differs: %v, %v", c.Nested(), copied.Nested())
		}
		exporter, state := "stripe", States[random.IntN(len(States))]
		before := c.Get(exporter, state)
		copied.Add(exporter, state, 5)
		if c.Get(exporter, state) != before || copied.Get(exporter, state) != before+5 {
			t.Fatalf("a change of the clone: want %d and %d, got %d and %d", before, before+5, c.Get(exporter, state), copied.Get(exporter, state))
		}
		if c.Equal(copied) || copied.Equal(c) {
			t.Fatalf("counts that differ are equal: %v, %v", c.Nested(), copied.Nested())
		}
		copied.Add(exporter, state, -5)
		copied.Add("never", Pending, 0)
		if !c.Equal(copied) || !copied.Equal(c) {
			t.Fatalf("an exporter without items makes a difference: %v, %v", c.Nested(), copied.Nested())
		}
	}
}

// Order doesn't matter, and each move touches one count.
func TestCountsAddCommutes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	type move struct {
		state State
		n     int64
	}
	for range 100 {
		moves := make([]move, 30)
		sums := map[State]int64{}
		for i := range moves {
			moves[i] = move{States[random.IntN(len(States))], random.Int64N(9) - 4}
			sums[moves[i].state] += moves[i].n
		}
		a, b := Counts{}, Counts{}
		for _, m := range moves {
			a.Add("stripe", m.state, m.n)
		}
		random.Shuffle(len(moves), func(i, j int) { moves[i], moves[j] = moves[j], moves[i] })
		for _, m := range moves {
			b.Add("stripe", m.state, m.n)
		}
		if !a.Equal(b) {
			t.Fatalf("order matters: %v, %v", a.Nested(), b.Nested())
		}
		for _, s := range States {
			if a.Get("stripe", s) != sums[s] || a.Get("other", s) != 0 {
				t.Fatalf("%s: want %d, got %d", s, sums[s], a.Get("stripe", s))
			}
		}
	}
}

func TestCountsNested(t *testing.T) {
	c := Counts{}
	c.Add("stripe", Pending, 2)
	c.Add("stripe", Confirmed, 1)
	c.Add("stripe", Leased, 1)
	c.Add("stripe", Leased, -1)
	want := map[string]map[State]int64{"stripe": {Pending: 2, Confirmed: 1}}
	if got := c.Nested(); !reflect.DeepEqual(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
	if b, err := json.Marshal(Counts{}.Nested()); err != nil || string(b) != "{}" {
		t.Errorf("no counts: want {}, got %s, %v", b, err)
	}
}
