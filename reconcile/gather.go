package reconcile

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"
)

// scope says which buckets are meant. The zero value means all.
type scope struct {
	meter    string // event name; "" for any
	customer string // "" for any
	from, to time.Time
	part     int // of parts, by series; parts 0 means all of them
	parts    int
}

func (s scope) holds(k Key) bool {
	switch {
	case s.meter != "" && k.Meter != s.meter, s.customer != "" && k.Customer != s.customer:
		return false
	case !s.from.IsZero() && k.Hour.Before(s.from), !s.to.IsZero() && !k.Hour.Before(s.to):
		return false
	case s.parts > 1:
		h := fnv.New32a()
		h.Write([]byte(k.Mode + "\x1f" + k.Meter + "\x1f" + k.Customer))
		return int(h.Sum32()%uint32(s.parts)) == s.part
	}
	return true
}

// gather groups the accepted items by their buckets. It holds ids and sums, never payloads.
func (r *Reconciler) gather(ctx context.Context, s scope) (map[Key]*bucket, error) {
	buckets := map[Key]*bucket{}
	var backs []back
	strange := 0
	err := r.each(ctx, func(v *row) error {
		u, ok := r.config.Books.Usage(&v.item)
		if !ok {
			strange++
			return nil
		}
		if u.Cancels != nil {
			backs = append(backs, back{v.item.ID, v.accepted, *u.Cancels})
			return nil
		}
		if k := keyOf(v.item.Mode, u); s.holds(k) {
			at(buckets, k).add(v.item.ID, v.accepted, u, false)
		}
		return nil
	}, awaitingSQL, r.config.Exporter, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("gather accepted items: %w", err)
	}
	r.metrics.strange.Set(float64(strange))
	if err := r.takeBack(ctx, s, buckets, backs); err != nil {
		return nil, fmt.Errorf("gather cancellations: %w", err)
	}
	return buckets, nil
}

// back is an accepted item that takes the usage of another one back.
type back struct {
	id       int64
	accepted time.Time
	target   [32]byte
}

// takeBack enters the cancellations in the buckets of what they cancel. One whose item is gone, or was never here, is
// left alone: weir doesn't know which bucket it changes.
func (r *Reconciler) takeBack(ctx context.Context, s scope, buckets map[Key]*bucket, backs []back) error {
	if len(backs) == 0 {
		return nil
	}
	targets := make([][]byte, len(backs))
	for i := range backs {
		targets[i] = backs[i].target[:]
	}
	known := map[[32]byte]Usage{}
	modes := map[[32]byte]string{}
	err := r.each(ctx, func(v *row) error {
		if u, ok := r.config.Books.Usage(&v.item); ok && u.Cancels == nil {
			known[v.item.Identity], modes[v.item.Identity] = u, v.item.Mode
		}
		return nil
	}, byIdentitySQL, targets)
	if err != nil {
		return err
	}
	for _, b := range backs {
		u, ok := known[b.target]
		if !ok {
			continue
		}
		if k := keyOf(modes[b.target], u); s.holds(k) {
			at(buckets, k).add(b.id, b.accepted, u, true)
		}
	}
	return nil
}

func at(buckets map[Key]*bucket, k Key) *bucket {
	b := buckets[k]
	if b == nil {
		b = &bucket{Key: k}
		buckets[k] = b
	}
	return b
}

// disturb looks, once the provider has been asked, at what may have moved meanwhile: a bucket with an item that is on its
// way, or was accepted after limit, isn't compared. It also enters the doubtful items.
func (r *Reconciler) disturb(ctx context.Context, buckets map[Key]*bucket, limit time.Time) error {
	named, err := r.named(ctx)
	if err != nil {
		return err
	}
	var cancelled [][]byte // what doubtful cancellations, and those on their way, take back; there are few
	visit := func(v *row, do func(*bucket, Usage)) error {
		u, ok := r.config.Books.Usage(&v.item)
		switch {
		case !ok:
		case u.Cancels != nil:
			cancelled = append(cancelled, u.Cancels[:])
		default:
			if b := buckets[keyOf(v.item.Mode, u)]; b != nil {
				do(b, u)
			}
		}
		return nil
	}
	move := func(b *bucket, _ Usage) { b.moving = true }
	if err := r.each(ctx, func(v *row) error { return visit(v, move) }, travellingSQL, r.config.Exporter); err != nil {
		return fmt.Errorf("look at items on their way: %w", err)
	}
	if err := r.each(ctx, func(v *row) error { return visit(v, move) }, awaitingSQL, r.config.Exporter, limit); err != nil {
		return fmt.Errorf("look at items accepted just now: %w", err)
	}
	err = r.each(ctx, func(v *row) error {
		return visit(v, func(b *bucket, u Usage) {
			d := Doubt{ID: v.item.ID, Token: v.item.Token, Identity: v.item.Identity, State: v.state, Value: u.Value, At: u.At}
			code, isNamed := named[v.item.Identity]
			switch {
			case v.state == "rejected":
				b.refused = append(b.refused, d)
			case isNamed:
				d.Verdict, d.Why = Reported, "the provider's error report names it: "+code
				b.reported = append(b.reported, d)
			default:
				b.doubts = append(b.doubts, d)
				b.moving = b.moving || !v.since.Before(limit)
			}
		})
	}, doubtfulSQL, r.config.Exporter)
	if err != nil {
		return fmt.Errorf("look at doubtful items: %w", err)
	}
	err = r.each(ctx, func(v *row) error { return visit(v, move) }, byIdentitySQL, cancelled)
	if err != nil {
		return fmt.Errorf("look at cancellations: %w", err)
	}
	return nil
}

// postpone lets the buckets rest that have an item on its way: reading them now would be wasted.
func (r *Reconciler) postpone(ctx context.Context, buckets map[Key]*bucket, resting map[Key]bool) error {
	err := r.each(ctx, func(v *row) error {
		if u, ok := r.config.Books.Usage(&v.item); ok && u.Cancels == nil {
			if k := keyOf(v.item.Mode, u); buckets[k] != nil {
				resting[k] = true
			}
		}
		return nil
	}, travellingSQL, r.config.Exporter)
	if err != nil {
		return fmt.Errorf("look at items on their way: %w", err)
	}
	return nil
}
