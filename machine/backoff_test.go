package machine

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// exact is the delay before jitter, by the formula.
func exact(p Policy, attempts int) time.Duration {
	d := float64(p.Base) * math.Pow(2, float64(max(attempts, 1)-1))
	if d >= float64(p.Cap) {
		return p.Cap
	}
	return time.Duration(d)
}

// Invariant: min(Cap, Base·2^(attempts-1)) <= Backoff <= 1.25 · Cap.
func TestBackoffBounds(t *testing.T) {
	policies := []Policy{
		DefaultPolicy(),
		{Base: 1, Cap: 1},
		{Base: 1, Cap: 2},
		{Base: time.Second, Cap: time.Second},
		{Base: 1, Cap: math.MaxInt64 / 5 * 4},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		base := time.Duration(random.Int64N(int64(time.Minute))) + 1
		policies = append(policies, Policy{Base: base, Cap: base + time.Duration(random.Int64N(int64(time.Hour)))})
	}
	for _, p := range policies {
		var last time.Duration
		for attempts := -1; attempts <= 70; attempts++ {
			want := exact(p, attempts)
			if want < last {
				t.Fatalf("the formula falls: base %v, cap %v, attempts %d", p.Base, p.Cap, attempts)
			}
			last = want
			// Above 2^53 the formula's own float64 is not exact.
			got, slack := p.Backoff(attempts), want>>50
			if got-want < -slack || got-want > want/4+slack {
				t.Fatalf("base %v, cap %v, attempts %d: want %v and up to a quarter more, got %v", p.Base, p.Cap, attempts, want, got)
			}
		}
		if p.Backoff(math.MaxInt) < p.Cap {
			t.Errorf("base %v, cap %v: the cap is never reached", p.Base, p.Cap)
		}
	}
}

// Items that failed together don't come back together.
// lesson "thundering herd"
func TestJitterSpreads(t *testing.T) {
	quarters := [4]int{}
	for range 4000 {
		d := Jitter(time.Second)
		quarters[min((d-time.Second)/(62500*time.Microsecond), 3)]++
	}
	for i, n := range quarters {
		if n < 800 || n > 1200 {
			t.Errorf("quarter %d of the jitter: want about 1000 of 4000, got %d", i+1, n)
		}
	}
	for _, d := range []time.Duration{0, 1, 3, -time.Hour} {
		if got := Jitter(d); got != max(d, 0) {
			t.Errorf("Jitter(%d): want nothing to add to, got %d", d, got)
		}
	}
}

func TestPolicyValidate(t *testing.T) {
	if err := DefaultPolicy().Validate(); err != nil {
		t.Fatalf("the default: %v", err)
	}
	tests := map[string]struct {
		change func(p *Policy)
		valid  bool
	}{
		"no lease":                     {func(p *Policy) { p.Lease = 0 }, false},
		"negative lease":               {func(p *Policy) { p.Lease = -1 }, false},
		"no base":                      {func(p *Policy) { p.Base = 0 }, false},
		"no cap":                       {func(p *Policy) { p.Cap = 0 }, false},
		"no attempts":                  {func(p *Policy) { p.Attempts = 0 }, false},
		"no horizon":                   {func(p *Policy) { p.Horizon = 0 }, false},
		"one attempt":                  {func(p *Policy) { p.Attempts = 1 }, true},
		"cap is base":                  {func(p *Policy) { p.Cap = p.Base }, true},
		"cap below base":               {func(p *Policy) { p.Cap = p.Base - 1 }, false},
		"cap with jitter at horizon":   {func(p *Policy) { p.Horizon, p.Cap = 5*time.Hour, 4*time.Hour }, false},
		"cap with jitter below":        {func(p *Policy) { p.Horizon, p.Cap = 5*time.Hour, 4*time.Hour-4 }, true},
		"cap that overflows":           {func(p *Policy) { p.Horizon, p.Cap = math.MaxInt64, math.MaxInt64 }, false},
		"cap that overflows by jitter": {func(p *Policy) { p.Horizon, p.Cap = math.MaxInt64, math.MaxInt64/5*4+9 }, false},
		"lease at horizon":             {func(p *Policy) { p.Horizon, p.Lease = time.Hour, time.Hour }, false},
		"lease below horizon":          {func(p *Policy) { p.Horizon, p.Lease = time.Hour, time.Hour-1 }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := DefaultPolicy()
			tt.change(&p)
			if err := p.Validate(); (err == nil) != tt.valid {
				t.Errorf("%+v: want valid %v, got %v", p, tt.valid, err)
			}
		})
	}
}

func TestExhausted(t *testing.T) {
	p := Policy{Attempts: 3}
	for _, tt := range []struct {
		item Item
		want string
	}{
		{Item{Attempts: 1}, ""},
		{Item{Attempts: 3}, ""},
		{Item{Attempts: 4}, "attempts"},
		{Item{Attempts: 1, PastHorizon: true}, "horizon"},
		{Item{Attempts: 4, PastHorizon: true}, "horizon"},
	} {
		if got := tt.item.Exhausted(p); got != tt.want {
			t.Errorf("%+v: want %q, got %q", tt.item, tt.want, got)
		}
	}
}
