package reconcile

import (
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// tally is what some events add up to, by any formula.
type tally struct {
	events int64 // less those that were taken back
	sum    decimal.Decimal
	last   []moment // those of the latest second: which of them is the last isn't known
	taken  []moment // usage that was taken back
}

// moment is a value and the second in which it happened.
type moment struct {
	at    int64
	value decimal.Decimal
}

// add counts usage.
func (t *tally) add(u Usage) {
	t.events++
	t.sum = t.sum.Add(u.Value)
	t.later(moment{u.At.Unix(), u.Value})
}

// takeBack counts the cancellation of usage.
func (t *tally) takeBack(u Usage) {
	t.events--
	t.sum = t.sum.Sub(u.Value)
	t.taken = append(t.taken, moment{u.At.Unix(), u.Value})
}

// plus counts what o counts.
func (t *tally) plus(o tally) {
	t.events += o.events
	t.sum = t.sum.Add(o.sum)
	for _, m := range o.last {
		t.later(m)
	}
	t.taken = append(t.taken, o.taken...)
}

func (t *tally) later(m moment) {
	switch {
	case len(t.last) == 0 || m.at > t.last[0].at:
		t.last = []moment{m}
	case m.at == t.last[0].at && !slices.ContainsFunc(t.last, func(k moment) bool { return k.value.Equal(m.value) }):
		t.last = append(t.last, m)
	}
}

// numbers are those that the formula may make of the events; of last there are several where the latest second has
// several. None says that it can't be told: the latest event was taken back, and the one before is forgotten.
func (t *tally) numbers(f Formula) []decimal.Decimal {
	switch f {
	case Count:
		return []decimal.Decimal{decimal.NewFromInt(t.events)}
	case Last:
		if t.events == 0 {
			return []decimal.Decimal{decimal.Zero}
		}
		var out []decimal.Decimal
		for _, m := range t.last {
			if !slices.ContainsFunc(t.taken, func(k moment) bool { return k.at == m.at && k.value.Equal(m.value) }) {
				out = append(out, m.value)
			}
		}
		return out
	}
	return []decimal.Decimal{t.sum}
}

// latest is the latest second and its value, as text: of several values the one that was found. Both are nil where there
// is none, or where it was taken back.
func (t *tally) latest(found decimal.Decimal) (at *time.Time, value *string) {
	numbers := t.numbers(Last)
	if len(t.last) == 0 || len(numbers) == 0 {
		return nil, nil
	}
	second, text := time.Unix(t.last[0].at, 0).UTC(), nearest(numbers, found).String()
	return &second, &text
}

// digits is how many of them a provider's floating-point number gets right.
const digits = 15

// same reports whether a and b agree in their first 15 significant digits.
func same(a, b decimal.Decimal) bool {
	difference := a.Sub(b).Abs()
	if difference.IsZero() {
		return true
	}
	// The magnitude of 123.4 is 3: NumDigits and Exponent are 4 and -1.
	magnitude := max(size(a), size(b))
	return difference.Mul(decimal.NewFromInt(2)).LessThanOrEqual(decimal.New(1, magnitude-digits))
}

func size(d decimal.Decimal) int32 {
	if d.IsZero() {
		return -1 << 20
	}
	return int32(d.NumDigits()) + d.Exponent()
}
