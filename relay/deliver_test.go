package relay

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-relay/weir/exporter"
	"github.com/weir-relay/weir/machine"
)

// scripted is an exporter whose answer the test gives.
type scripted struct {
	limits  exporter.Limits
	deliver func(ctx context.Context, items []machine.Item) []exporter.Outcome
}

func (s *scripted) Limits() exporter.Limits { return s.limits }
func (s *scripted) Deliver(ctx context.Context, items []machine.Item) []exporter.Outcome {
	return s.deliver(ctx, items)
}

// keyed is one whose items have their tenant for a key.
type keyed struct{ *scripted }

func (keyed) Key(it *machine.Item) string {
	if it.TenantKey == "panic" {
		panic("no key")
	}
	return it.TenantKey
}

func all(k exporter.Kind, items []machine.Item) []exporter.Outcome {
	out := make([]exporter.Outcome, len(items))
	for i := range out {
		out[i] = exporter.Outcome{Kind: k, Code: "scripted"}
	}
	return out
}

// loose is a lane without a database: what it would settle piles up in its settler.
func loose(t *testing.T, e exporter.Exporter) *Lane {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return newLane(LaneConfig{Name: "x", Exporter: e}, "test", machine.NewStore(nil, machine.DefaultPolicy()),
		slog.New(slog.DiscardHandler), m.lane("x"))
}

// settled takes out what the lane would settle.
func settled(l *Lane) []settlement {
	l.settler.mu.Lock()
	defer l.settler.mu.Unlock()
	out := l.settler.queue
	l.settler.queue = nil
	return out
}

func items(tenants ...string) []machine.Item {
	out := make([]machine.Item, len(tenants))
	for i, tenant := range tenants {
		out[i] = machine.Item{ID: int64(i + 1), Token: 1, Attempts: 1, FirstAttempt: true, TenantKey: tenant}
	}
	return out
}

func claimOf(items []machine.Item) claimed {
	return claimed{items: items, until: time.Now().Add(machine.DefaultPolicy().Lease)}
}

func idle(t *testing.T, l *Lane) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != 0 || l.slots != 0 || len(l.queues) != 0 {
		t.Errorf("want nothing held, got %d items, %d slots, %d queues", l.held, l.slots, len(l.queues))
	}
}

// lesson 25
func TestOneCallInFlightPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		inFlight, most := map[string]int{}, 0
		var order []int64
		l := loose(t, keyed{&scripted{exporter.Limits{Calls: 64, Batch: 10, Timeout: time.Second},
			func(_ context.Context, items []machine.Item) []exporter.Outcome {
				if len(items) != 1 {
					t.Errorf("want one item a call, got %d", len(items))
				}
				mu.Lock()
				inFlight[items[0].TenantKey]++
				most = max(most, inFlight[items[0].TenantKey])
				order = append(order, items[0].ID)
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				inFlight[items[0].TenantKey]--
				mu.Unlock()
				return all(exporter.Accepted, items)
			}}})
		l.deliver(t.Context(), claimOf(items("a", "a", "a", "a", "a", "b")))
		if n := l.capacity(time.Now()).n; n != windowStart-2 {
			t.Errorf("want a slot taken for each key, got room for %d", n)
		}
		l.waitIdle(t.Context())
		synctest.Wait()
		if most != 1 || len(order) != 6 || len(settled(l)) != 6 {
			t.Errorf("want 1 in flight per key and 6 sent, got %d, %v", most, order)
		}
		idle(t, l)
	})
}

// One key with nine tenths of the items doesn't delay the rest: what doesn't fit its queue is handed back, to come
// in its turn.
func TestBusyKeyLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		done := map[string]time.Duration{}
		start := time.Now()
		l := loose(t, keyed{&scripted{exporter.Limits{Calls: 3, Batch: 1, Timeout: time.Second},
			func(_ context.Context, items []machine.Item) []exporter.Outcome {
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				done[fmt.Sprint(items[0].TenantKey, items[0].ID)] = time.Since(start)
				return all(exporter.Accepted, items)
			}}})
		var backlog []machine.Item
		for i := range 100 {
			tenant := "whale"
			if i%10 == 9 {
				tenant = fmt.Sprint("minnow", i)
			}
			backlog = append(backlog, machine.Item{ID: int64(i), Attempts: 1, TenantKey: tenant, FirstAttempt: true})
		}
		for len(backlog) > 0 {
			room := l.capacity(time.Now())
			if room.n == 0 {
				l.wait(t.Context(), room.again, false)
				continue
			}
			n := min(room.n, len(backlog))
			l.deliver(t.Context(), claimOf(append([]machine.Item(nil), backlog[:n]...)))
			backlog = backlog[n:]
		}
		took := time.Since(start)
		l.waitIdle(t.Context())
		synctest.Wait()
		if took > time.Second {
			t.Errorf("want the backlog looked through at once, took %v", took)
		}
		for key, at := range done {
			if key[:3] == "min" && at > 700*time.Millisecond {
				t.Errorf("%s waited %v for another key", key, at)
			}
		}
		var back int
		var last time.Duration
		for _, s := range settled(l) {
			if s.outcome.Code != "handed_back" {
				continue
			}
			back++
			if s.outcome.Cost != machine.Unsent || s.outcome.After < last {
				t.Errorf("want it unsent and after %v, got %+v", last, s.outcome)
			}
			last = s.outcome.After
		}
		if back == 0 || last < 500*time.Millisecond {
			t.Errorf("want items handed back for later and later, got %d, the last for %v", back, last)
		}
		idle(t, l)
	})
}

// Batches that aren't full take a call each, and Limits.Calls bounds calls, not items.
func TestCallsAreBoundedAlsoWhereBatchesAreSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		l := loose(t, &scripted{exporter.Limits{Calls: 3, Batch: 1000, Timeout: time.Second},
			func(_ context.Context, items []machine.Item) []exporter.Outcome {
				<-block
				return all(exporter.Accepted, items)
			}})
		for i := range 3 {
			if n := l.capacity(time.Now()).n; n != min(1000*(3-i), claimBound) {
				t.Errorf("%d calls in flight: want room for %d, got %d", i, min(1000*(3-i), claimBound), n)
			}
			l.deliver(t.Context(), claimOf(items("a")))
		}
		if n := l.capacity(time.Now()).n; n != 0 {
			t.Errorf("want no room for a fourth call, got %d", n)
		}
		close(block)
		l.waitIdle(t.Context())
		synctest.Wait()
		idle(t, l)
	})
}

func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan struct{}, 10000)
		l := loose(t, keyed{&scripted{exporter.Limits{Calls: 1000, Batch: 1, Rate: 100, Timeout: time.Second},
			func(_ context.Context, items []machine.Item) []exporter.Outcome {
				calls <- struct{}{}
				return all(exporter.Accepted, items)
			}}})
		start := time.Now()
		for time.Since(start) < 10*time.Second {
			room := l.capacity(time.Now())
			if room.n == 0 {
				l.wait(t.Context(), room.again, false)
				continue
			}
			l.deliver(t.Context(), claimOf(items(make([]string, room.n)...)))
		}
		l.waitIdle(t.Context())
		synctest.Wait()
		if n := len(calls); n < 990 || n > 1010 {
			t.Errorf("want 1000 calls in 10 seconds, got %d", n)
		}
	})
}

// lesson 23
func TestNothingIsSentUnderAnEndingLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loose(t, &scripted{exporter.Limits{Calls: 3, Batch: 2, Timeout: time.Second},
			func(context.Context, []machine.Item) []exporter.Outcome { t.Error("it was sent"); return nil }})
		c := claimOf(items("a", "b", "c"))
		c.until = time.Now().Add(time.Second - 1)
		l.deliver(t.Context(), c)
		l.waitIdle(t.Context())
		synctest.Wait()
		got := settled(l)
		if len(got) != 3 {
			t.Fatalf("want 3 handed back, got %d", len(got))
		}
		for _, s := range got {
			if s.outcome.Cost != machine.Unsent || s.outcome.After < time.Second {
				t.Errorf("want it handed back and not at once, got %+v", s.outcome)
			}
		}
		idle(t, l)
	})
}

func TestExhaustedIsDoubtedNotSent(t *testing.T) {
	l := loose(t, &scripted{exporter.Limits{Calls: 3, Batch: 2, Timeout: time.Second},
		func(context.Context, []machine.Item) []exporter.Outcome { t.Error("it was sent"); return nil }})
	many := items("a", "b")
	many[0].Attempts = machine.DefaultPolicy().Attempts + 1
	many[1].PastHorizon = true
	l.deliver(t.Context(), claimOf(many))
	for _, s := range settled(l) {
		if s.outcome.Kind != exporter.Uncertain || s.outcome.Code != "exhausted" {
			t.Errorf("want it doubted, got %+v", s.outcome)
		}
	}
	idle(t, l)
}

func TestBadExporters(t *testing.T) {
	tests := map[string]struct {
		deliver func(context.Context, []machine.Item) []exporter.Outcome
		code    string
	}{
		"panics":  {func(context.Context, []machine.Item) []exporter.Outcome { panic("oh") }, "exporter_panic"},
		"nothing": {func(context.Context, []machine.Item) []exporter.Outcome { return nil }, "exporter_answer"},
		"too few": {func(_ context.Context, i []machine.Item) []exporter.Outcome { return all(exporter.Accepted, i[1:]) }, "exporter_answer"},
		"too many": {func(_ context.Context, i []machine.Item) []exporter.Outcome {
			return append(all(exporter.Accepted, i), exporter.Outcome{})
		}, "exporter_answer"},
		"no kind":      {func(_ context.Context, i []machine.Item) []exporter.Outcome { return all(0, i) }, "exporter_answer"},
		"unknown kind": {func(_ context.Context, i []machine.Item) []exporter.Outcome { return all(200, i) }, "exporter_answer"},
		"runtime error": {func(_ context.Context, i []machine.Item) []exporter.Outcome {
			return all(exporter.Accepted, i[:1+len(i)])
		}, "exporter_panic"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := loose(t, &scripted{exporter.Limits{Calls: 2, Batch: 2, Timeout: time.Second}, tt.deliver})
			l.deliver(t.Context(), claimOf(items("a", "b")))
			l.waitIdle(t.Context())
			got := settled(l)
			if len(got) != 2 {
				t.Fatalf("want 2 outcomes, got %d", len(got))
			}
			for _, s := range got {
				if s.outcome.Kind != exporter.Retry || s.outcome.Code != tt.code || s.outcome.Cost != machine.Counted {
					t.Errorf("want a counted retry by %s, got %+v", tt.code, s.outcome)
				}
			}
			idle(t, l)
		})
	}
}

func TestKeyThatPanicsIsNone(t *testing.T) {
	l := loose(t, keyed{&scripted{exporter.Limits{Calls: 2, Batch: 1, Timeout: time.Second},
		func(_ context.Context, items []machine.Item) []exporter.Outcome { return all(exporter.Rejected, items) }}})
	l.deliver(t.Context(), claimOf(items("panic")))
	l.waitIdle(t.Context())
	if got := settled(l); len(got) != 1 || got[0].outcome.Kind != exporter.Rejected {
		t.Errorf("want what the exporter says of it, got %+v", got)
	}
}

// A probe that can't be sent, whatever the reason, leaves room for the next.
func TestProbeIsNeverForgotten(t *testing.T) {
	probing := func(l *Lane) bool { l.gate.mu.Lock(); defer l.gate.mu.Unlock(); return l.gate.probing }
	probe := func(c claimed) claimed { c.probe = true; return c }
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		l := loose(t, keyed{&scripted{exporter.Limits{Calls: 20, Batch: 1, Timeout: time.Second},
			func(_ context.Context, items []machine.Item) []exporter.Outcome {
				<-block
				o := all(exporter.Retry, items)
				o[0].Signal = exporter.Unreachable
				return o
			}}})
		l.deliver(t.Context(), claimOf(items("a", "a", "a", "a", "a")))
		l.gate = *broken()
		time.Sleep(2 * time.Second)
		for name, c := range map[string]claimed{
			"queue full": claimOf(items("a")),
			"exhausted":  claimOf([]machine.Item{{PastHorizon: true}}),
			"too late":   {items: items("b"), until: time.Now()},
		} {
			if !l.capacity(time.Now()).probe {
				t.Fatalf("%s: want a probe", name)
			}
			l.deliver(t.Context(), probe(c))
			synctest.Wait()
			if probing(l) {
				t.Errorf("%s: the gate waits for a probe that isn't under way", name)
			}
		}
		l.capacity(time.Now())
		l.deliver(t.Context(), probe(claimOf(items("c"))))
		synctest.Wait()
		if !probing(l) {
			t.Error("the gate doesn't wait for its probe")
		}
		close(block)
		l.waitIdle(t.Context())
		synctest.Wait()
		if probing(l) {
			t.Error("the gate waits for a probe that has ended")
		}
		idle(t, l)
	})
}

// Slots never leak, whatever the exporter does.
func TestSlotsNeverLeak(t *testing.T) {
	for _, withKeys := range []bool{false, true} {
		t.Run(fmt.Sprint("keys ", withKeys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{exporter.Limits{Calls: 8, Batch: 3, Rate: 1000, Timeout: time.Second},
					func(ctx context.Context, items []machine.Item) []exporter.Outcome {
						switch rand.IntN(6) {
						case 0:
							panic("oh")
						case 1:
							return nil
						case 2:
							<-ctx.Done()
						case 3:
							time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
						}
						out := all(exporter.Kind(rand.IntN(7)), items)
						for i := range out {
							out[i].Signal = exporter.Signal(rand.IntN(5))
						}
						return out
					}}
				var e exporter.Exporter = s
				if withKeys {
					e = keyed{s}
				}
				l := loose(t, e)
				sent, got := 0, 0
				for range 3000 {
					room := l.capacity(time.Now())
					if room.n == 0 {
						l.wait(t.Context(), room.again, false)
						continue
					}
					tenants := make([]string, 1+rand.IntN(room.n))
					for i := range tenants {
						tenants[i] = fmt.Sprint(rand.IntN(4))
					}
					c := claimOf(items(tenants...))
					c.probe = room.probe
					l.deliver(t.Context(), c)
					sent += len(tenants)
					if l.mu.Lock(); l.slots > 8 || l.slots < 0 {
						t.Fatalf("%d of 8 slots are taken", l.slots)
					}
					l.mu.Unlock()
					got += len(settled(l))
				}
				l.handBackQueued()
				l.waitIdle(t.Context())
				synctest.Wait()
				if got += len(settled(l)); got != sent {
					t.Errorf("want an outcome for each of %d items, got %d", sent, got)
				}
				idle(t, l)
			})
		})
	}
}

func TestShutdownLeavesACallBehindThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := loose(t, &scripted{exporter.Limits{Calls: 1, Batch: 1, Timeout: time.Second},
			func(_ context.Context, items []machine.Item) []exporter.Outcome {
				<-release
				return all(exporter.Accepted, items)
			}})
		l.deliver(t.Context(), claimOf(items("a")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		l.waitIdle(ctx)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("want it left behind after a minute, took %v", took)
		}
		close(release)
		synctest.Wait()
	})
}
