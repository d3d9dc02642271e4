package machine

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Policy says how often and how long an item is tried.
type Policy struct {
	// Lease is how long a claim holds an item. It must be longer than the slowest send. Defaults to 2 minutes.
	Lease time.Duration
	// Base is the delay after the first failed attempt. Defaults to 5 seconds.
	Base time.Duration
	// Cap bounds the delay, before jitter. Defaults to 15 minutes.
	Cap time.Duration
	// Attempts bounds the attempts that count; the item is uncertain after the last. Defaults to 20.
	Attempts int
	// Horizon is how long after its first attempt an item may be sent again. It must end well before the
	// provider forgets the identifier: a later resend of an item that had arrived would be billed twice.
	// Defaults to 23 hours, since Stripe promises at least 24.
	Horizon time.Duration
}

// DefaultPolicy is the one that the fields' comments describe.
func DefaultPolicy() Policy {
	return Policy{
		Lease:    2 * time.Minute,
		Base:     5 * time.Second,
		Cap:      15 * time.Minute,
		Attempts: 20,
		Horizon:  23 * time.Hour,
	}
}

// Validate checks the fields, alone and in pairs.
func (p Policy) Validate() error {
	switch {
	case p.Lease <= 0 || p.Base <= 0 || p.Cap <= 0 || p.Attempts <= 0 || p.Horizon <= 0:
		return fmt.Errorf("machine: policy %+v: every field must be above zero", p)
	case p.Cap < p.Base:
		return fmt.Errorf("machine: policy: backoff cap %v is below its base %v: raise the cap", p.Cap, p.Base)
	case p.Cap/4 >= p.Horizon-p.Cap:
		return fmt.Errorf("machine: policy: backoff cap %v with its jitter reaches the horizon %v: lower the cap", p.Cap, p.Horizon)
	case p.Lease >= p.Horizon:
		return fmt.Errorf("machine: policy: lease %v reaches the horizon %v: shorten the lease", p.Lease, p.Horizon)
	}
	return nil
}

// Backoff is the delay before the attempt after the given number of attempts:
// min(Cap, Base·2^(attempts-1)) plus up to a quarter of jitter, so that items which failed together
// don't come back together.
//
// Invariant: min(Cap, Base·2^(attempts-1)) <= Backoff <= 1.25 · Cap.
func (p Policy) Backoff(attempts int) time.Duration {
	delay := min(p.Base, p.Cap)
	for i := 1; i < attempts && delay < p.Cap; i++ {
		delay += min(delay, p.Cap-delay)
	}
	return Jitter(delay)
}

// Jitter adds up to a quarter to d. A d below zero is as good as none.
func Jitter(d time.Duration) time.Duration {
	d = max(d, 0)
	return d + time.Duration(rand.Int64N(int64(d)/4+1))
}
