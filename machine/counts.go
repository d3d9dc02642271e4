package machine

import "maps"

// Tally is how many items of one exporter stand in each state, in the order of States.
type Tally [len(States)]int64

// Counts is a Tally for each exporter. Only exporters that have, or had, items are in it.
type Counts map[string]*Tally

// Add moves the count of exporter and state by n.
func (c Counts) Add(exporter string, state State, n int64) {
	t := c[exporter]
	if t == nil {
		t = new(Tally)
		c[exporter] = t
	}
	t[state.Index()] += n
}

// Get answers the count of exporter and state.
func (c Counts) Get(exporter string, state State) int64 {
	if t := c[exporter]; t != nil {
		return t[state.Index()]
	}
	return 0
}

// Clone copies c.
func (c Counts) Clone() Counts {
	out := make(Counts, len(c))
	for exporter, t := range c {
		copied := *t
		out[exporter] = &copied
	}
	return out
}

// Equal reports whether both count the same, an exporter without items being like an absent one.
func (c Counts) Equal(d Counts) bool {
	return maps.EqualFunc(c.present(), d.present(), func(a, b *Tally) bool { return *a == *b })
}

func (c Counts) present() Counts {
	out := make(Counts, len(c))
	for exporter, t := range c {
		if *t != (Tally{}) {
			out[exporter] = t
		}
	}
	return out
}

// Nested is c as {exporter: {state: n}}, without zeros: the shape that weir.checkpoints keeps.
func (c Counts) Nested() map[string]map[State]int64 {
	out := make(map[string]map[State]int64, len(c))
	for exporter, t := range c {
		m := map[State]int64{}
		for i, n := range t {
			if n != 0 {
				m[States[i]] = n
			}
		}
		out[exporter] = m
	}
	return out
}
