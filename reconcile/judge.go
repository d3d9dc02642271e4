package reconcile

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/shopspring/decimal"
)

// judge compares a bucket with the provider's number. It is pure, but for the verdicts that it enters in the doubts.
//
// Its premise is the provider's word: what it accepted is counted, unless it said otherwise since. So what the number
// has beyond the accepted items must be doubtful ones.
func judge(b *bucket, formula Formula, found decimal.Decimal) Finding {
	sent := b.expected()
	numbers := sent.numbers(formula)
	f := Finding{
		Key: b.Key, Formula: formula, Found: found, Items: b.items, Confirmed: b.confirmed.events,
		Doubts: b.doubts, bucket: b,
	}
	if len(numbers) == 0 {
		f.Standing, f.Expected = Unclear, found
		f.Why = "the latest event was taken back, and weir doesn't know the one before"
		tellNothing(f.Doubts, f.Why)
		return f
	}
	f.Expected = nearest(numbers, found)
	equal := same(f.Expected, found)
	if b.moving {
		f.Standing = Moving
		tellNothing(f.Doubts, "something of the hour is on its way, or has come to rest just now: ask again later")
		return f
	}
	clear := decide(f.Doubts, formula, &sent, f.Expected, found)
	f.Doubts = append(f.Doubts, b.reported...)
	switch {
	case !equal:
		f.Standing = Differs
	case clear:
		f.Standing = Agrees
	default:
		f.Standing = Unclear
		f.Why = "the numbers are equal, but a doubtful item may make up for one that is missing"
	}
	return f
}

// unknown is the finding of a bucket of which the provider can't be asked.
func unknown(b *bucket, formula Formula, why error) Finding {
	f := judge(b, formula, decimal.Zero)
	f.Standing, f.Why, f.Found = Unclear, why.Error(), decimal.Zero
	tellNothing(f.Doubts, f.Why)
	return f
}

// nearest is the number that is found, or the first.
func nearest(numbers []decimal.Decimal, found decimal.Decimal) decimal.Decimal {
	for _, n := range numbers {
		if same(n, found) {
			return n
		}
	}
	return numbers[0]
}

// maxDoubts bounds the search for what explains a number, to 2^12 combinations.
const maxDoubts = 12

// decide enters what found proves of each doubtful item. It answers whether no doubtful item can be behind the number
// that weir expects: otherwise an equal number may hide an accepted item that is missing.
func decide(doubts []Doubt, formula Formula, sent *tally, expected, found decimal.Decimal) (clear bool) {
	if len(doubts) == 0 {
		return true
	}
	if formula == Last {
		return decideLast(doubts, sent, expected, found)
	}
	if len(doubts) > maxDoubts {
		return decideMany(doubts, formula, expected, found)
	}
	solutions, all, some := 0, ^uint32(0), uint32(0)
	totals := make([]decimal.Decimal, 1<<len(doubts)) // of each combination: that without its first item, and that item
	totals[0] = expected
	for mask := range uint32(len(totals)) {
		if mask > 0 {
			totals[mask] = totals[mask&(mask-1)].Add(weight(&doubts[bits.TrailingZeros32(mask)], formula))
		}
		if same(totals[mask], found) {
			solutions++
			all &= mask
			some |= mask
		}
	}
	clear = true
	for i := range doubts {
		d, bit := &doubts[i], uint32(1)<<i
		switch {
		case solutions == 0:
			d.Verdict, d.Why = CannotTell, fmt.Sprintf("the provider has %s, weir sent %s, and no combination of the doubtful items makes up the difference", found, expected)
		case all&bit != 0:
			d.Verdict, d.Why = Counted, fmt.Sprintf("the provider has %s: what weir knows to be accepted makes %s, and the difference needs this item's %s", found, expected, weight(d, formula))
		case some&bit == 0:
			d.Verdict, d.Why = NotCounted, fmt.Sprintf("the provider has %s: what weir knows to be accepted makes %s, and this item's %s is not in the difference", found, expected, weight(d, formula))
		default:
			d.Verdict, d.Why = CannotTell, fmt.Sprintf("the provider has %s, weir sent %s: the difference can be made with this item and without it", found, expected)
		}
		if some&bit != 0 && !weight(d, formula).IsZero() {
			clear = false
		}
	}
	return clear
}

// weight is what the item adds to the number.
func weight(d *Doubt, formula Formula) decimal.Decimal {
	if formula == Count {
		return decimal.NewFromInt(1)
	}
	return d.Value
}

// decideMany tells only the two plain cases: none of them is counted, or all are. It needs weights of one sign.
func decideMany(doubts []Doubt, formula Formula, expected, found decimal.Decimal) (clear bool) {
	total := decimal.Zero
	sign := weight(&doubts[0], formula).Sign()
	oneSign := sign != 0
	for i := range doubts {
		w := weight(&doubts[i], formula)
		total = total.Add(w)
		oneSign = oneSign && w.Sign() == sign
	}
	none, every := same(expected, found), same(expected.Add(total), found)
	for i := range doubts {
		d := &doubts[i]
		switch {
		case oneSign && none:
			d.Verdict, d.Why = NotCounted, fmt.Sprintf("the provider has %s, as much as weir knows to be accepted: none of the %d doubtful items is in it", found, len(doubts))
		case oneSign && every:
			d.Verdict, d.Why = Counted, fmt.Sprintf("the provider has %s: weir's %s and all of the %d doubtful items", found, expected, len(doubts))
		default:
			d.Verdict, d.Why = CannotTell, fmt.Sprintf("%d items are doubtful: too many for their combinations to be told apart", len(doubts))
		}
	}
	return oneSign && none
}

// decideLast tells of the latest event only, and only where one item is in doubt.
func decideLast(doubts []Doubt, sent *tally, expected, found decimal.Decimal) (clear bool) {
	d := &doubts[0]
	latest := len(sent.last) == 0 || d.At.Unix() > sent.last[0].at
	switch {
	case len(doubts) > 1:
		tellNothing(doubts, "several items are doubtful, and the meter counts only the last")
		return !slices.ContainsFunc(doubts, func(d Doubt) bool { return same(d.Value, found) })
	case !latest:
		tellNothing(doubts, "the meter counts only the last value of an hour, and a later event is there")
		return true
	case same(d.Value, expected):
		tellNothing(doubts, "the last value would be the same with and without it")
		return false
	case same(d.Value, found):
		d.Verdict, d.Why = Counted, fmt.Sprintf("the provider's last value is %s, this item's", found)
		return false
	case same(expected, found):
		d.Verdict, d.Why = NotCounted, fmt.Sprintf("the provider's last value is %s, that of the item before it", found)
		return true
	}
	tellNothing(doubts, fmt.Sprintf("the provider's last value is %s, neither this item's nor that of the one before", found))
	return true
}

func tellNothing(doubts []Doubt, why string) {
	for i := range doubts {
		doubts[i].Verdict, doubts[i].Why = CannotTell, why
	}
}
