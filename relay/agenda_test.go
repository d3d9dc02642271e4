package relay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func ids(wakes []wake) []int64 {
	out := make([]int64, len(wakes))
	for i, w := range wakes {
		out[i] = w.id
	}
	return out
}

func wantIDs(t *testing.T, got []wake, want ...int64) {
	t.Helper()
	if fmt.Sprint(ids(got)) != fmt.Sprint(want) {
		t.Errorf("want wakes %v, got %v", want, ids(got))
	}
}

func TestAgendaKeepsAnIDOnce(t *testing.T) {
	a := newAgenda(10)
	now := time.Now()
	a.now(wake{id: 1})
	a.now(wake{id: 2})
	a.now(wake{id: 1})
	wantIDs(t, a.take(10, now), 1, 2)
	wantIDs(t, a.take(10, now))
	a.now(wake{id: 1})
	wantIDs(t, a.take(10, now), 1)
}

func TestAgendaTakesHeadsFirst(t *testing.T) {
	a := newAgenda(10)
	for id := range int64(5) {
		a.now(wake{id: id})
	}
	a.head(9)
	wantIDs(t, a.take(2, time.Now()), 9, 0)
}

func TestAgendaOwesASweepForWhatDoesNotFit(t *testing.T) {
	a := newAgenda(2)
	for id := range int64(1000) {
		a.now(wake{id: id})
	}
	if ready, _, owed := a.depth(); ready != 2 || !owed {
		t.Errorf("want 2 ready and a sweep owed, got %d, %v", ready, owed)
	}
	owed, first := a.sweepOwed(time.Now())
	if !owed {
		t.Fatal("no sweep is owed")
	}
	a.sweep() // while the first is under way
	a.swept(first)
	if owed, _ := a.sweepOwed(time.Now()); !owed {
		t.Error("a sweep that began before the request has answered it")
	}
	_, second := a.sweepOwed(time.Now())
	a.swept(second)
	if owed, _ := a.sweepOwed(time.Now()); owed {
		t.Error("the sweep is still owed after it was made")
	}
}

func TestAgendaTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		in := func(d time.Duration) time.Time { return start.Add(d) }
		a := newAgenda(10)
		a.at(1, in(time.Minute))
		a.at(2, in(time.Second))
		a.at(3, in(2*time.Second))
		a.at(3, in(3*time.Second)) // the log moves it
		a.at(4, in(2*time.Second))
		a.forget(4)
		a.by(wake{id: 1}, in(time.Hour)) // a query that is out of date doesn't
		if next := a.next(time.Now()); !next.Equal(in(time.Second)) {
			t.Errorf("want the next timer after 1s, got %v", next.Sub(start))
		}
		for _, step := range []struct {
			at   time.Duration
			want []int64
		}{{0, nil}, {time.Second, []int64{2}}, {2 * time.Second, nil}, {3 * time.Second, []int64{3}}, {time.Minute, []int64{1}}, {time.Hour, nil}} {
			time.Sleep(time.Until(in(step.at)))
			wantIDs(t, a.take(10, time.Now()), step.want...)
		}
	})
}

// A lane that waits is woken for what is due before it looks anyway, and for nothing else.
func TestAgendaRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rung := func(a *agenda) bool {
			select {
			case <-a.signal:
				return true
			default:
				return false
			}
		}
		a := newAgenda(10)
		now := time.Now()
		if next := a.next(now); !next.Equal(now.Add(lookAnyway)) {
			t.Errorf("without timers: want to look after %v, got %v", lookAnyway, next.Sub(now))
		}
		a.at(1, now.Add(2*lookAnyway)) // a lease
		if rung(a) {
			t.Error("rang for what is due after the next look")
		}
		a.at(2, now.Add(time.Second))
		if !rung(a) {
			t.Error("did not ring for what is due before the next look")
		}
		if next := a.next(now); !next.Equal(now.Add(time.Second)) {
			t.Errorf("want to look after 1s, got %v", next.Sub(now))
		}
		a.by(wake{id: 3}, now.Add(2*time.Second))
		if rung(a) {
			t.Error("rang for what is due after the next look")
		}
		time.Sleep(time.Second)
		wantIDs(t, a.take(10, time.Now()), 2)
		if next := a.next(time.Now()); !next.Equal(now.Add(2 * time.Second)) {
			t.Errorf("want to look after 2s, got %v", next.Sub(now))
		}
	})
}

// lesson 1
func TestAgendaLooksAgainLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgenda(10)
		w := wake{id: 7, commit: time.Now()}
		var waits []time.Duration
		for range 13 {
			start := time.Now()
			a.again(w, start, hiddenLongest)
			time.Sleep(time.Until(a.next(time.Now())))
			waits = append(waits, time.Since(start))
			got := a.take(10, time.Now())
			wantIDs(t, got, 7)
			if !got[0].commit.Equal(w.commit) {
				t.Error("the time of the commit was forgotten")
			}
			w = got[0]
		}
		if waits[0] != hiddenFirst || waits[1] != 2*hiddenFirst || waits[12] != hiddenLongest {
			t.Errorf("want waits from %v to %v, got %v", hiddenFirst, hiddenLongest, waits)
		}
		if _, later, _ := a.depth(); later != 0 {
			t.Errorf("want nothing left, got %d timers", later)
		}
	})
}

// However many timers don't fit, and however soon they fire, they cost a sweep a second.
func TestAgendaCoarseTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgenda(1)
		sweeps := 0
		start := time.Now()
		for time.Since(start) < 10*time.Second {
			for id := range int64(50) {
				a.again(wake{id: id}, time.Now(), hiddenLongest)
			}
			a.take(50, time.Now())
			if owed, request := a.sweepOwed(time.Now()); owed {
				sweeps++
				a.swept(request)
			}
			time.Sleep(time.Millisecond)
		}
		if sweeps < 9 || sweeps > 11 {
			t.Errorf("want a sweep a second for 10 seconds, got %d", sweeps)
		}
	})
}

func TestAgendaLearnsWhatIsDueSoonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		a := newAgenda(3)
		for id := range int64(3) {
			a.at(100+id, start.Add(time.Hour)) // full of what is far away
		}
		a.learn([]timer{
			{wake: wake{id: 1}, when: start.Add(time.Second)},
			{wake: wake{id: 2}, when: start.Add(2 * time.Second)},
			{wake: wake{id: 3}, when: start.Add(3 * time.Second)},
		}, true, start)
		if _, later, _ := a.depth(); later != 3 {
			t.Errorf("want 3 timers, got %d", later)
		}
		time.Sleep(3 * time.Second)
		wantIDs(t, a.take(9, time.Now()), 1, 2, 3)
		time.Sleep(time.Second)
		if owed, _ := a.sweepOwed(time.Now()); !owed {
			t.Error("nothing makes up for the timers that gave way")
		}
	})
}

// A row that was looked for in vain before a sweep, and that the sweep didn't find either, was deleted. One that was
// looked for since may only be hidden still.
func TestAgendaForgetsWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgenda(9)
		a.again(wake{id: 1}, time.Now(), hiddenLongest)
		a.again(wake{id: 2}, time.Now(), hiddenLongest)
		time.Sleep(time.Millisecond)
		asked := time.Now()
		a.again(wake{id: 3}, asked, hiddenLongest)
		a.learn([]timer{{wake: wake{id: 2}, when: time.Now()}}, false, asked)
		time.Sleep(time.Second)
		wantIDs(t, a.take(9, time.Now()), 2, 3)
	})
}

func TestAgendaClear(t *testing.T) {
	a := newAgenda(9)
	a.now(wake{id: 1})
	a.head(2)
	a.at(3, time.Now())
	a.clear()
	wantIDs(t, a.take(9, time.Now().Add(time.Hour)))
}

// Random steps, held against the invariant: what was put in and not taken out again is in a list, has a timer no
// later than its time, or a sweep is owed now or by its time.
func TestAgendaInvariant(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			bound := 1 + r.IntN(8)
			a := newAgenda(bound)
			now := time.Now()
			due := map[int64]time.Time{} // what has to be covered, and by when
			check := func(step string) {
				t.Helper()
				for id, when := range due {
					if a.owed || a.heads.contains(id) || a.ready.contains(id) {
						continue
					}
					if known := a.later.at[id]; known != nil && !known.when.After(when) {
						continue
					}
					if o := a.later.overflow; !o.IsZero() && !o.After(when.Add(time.Second)) {
						continue
					}
					t.Fatalf("seed %d, %s: id %d is lost", seed, step, id)
				}
				if a.ready.len() > bound || a.heads.len() > bound || a.later.len() > bound ||
					len(a.later.at) != a.later.len() || len(a.ready.has) != a.ready.len() {
					t.Fatalf("seed %d, %s: more than %d are kept", seed, step, bound)
				}
				for i, known := range a.later.heap {
					if known.index != i || a.later.at[known.id] != known || i > 0 && known.when.Before(a.later.heap[(i-1)/2].when) {
						t.Fatalf("seed %d, %s: the heap is broken", seed, step)
					}
				}
			}
			for range 400 {
				id := int64(r.IntN(20))
				when := now.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
				switch step := r.IntN(10); step {
				case 0, 1:
					a.now(wake{id: id})
					due[id] = now
				case 2:
					a.head(id)
					due[id] = now
				case 3:
					a.at(id, when)
					due[id] = when
				case 4:
					a.by(wake{id: id}, when)
					if known, ok := due[id]; !ok || when.Before(known) {
						due[id] = when
					}
				case 5:
					a.again(wake{id: id}, now, hiddenLongest)
					if known, ok := due[id]; !ok || now.Add(hiddenFirst).Before(known) {
						due[id] = now.Add(hiddenFirst)
					}
				case 6:
					a.forget(id)
					delete(due, id)
				case 7:
					for _, w := range a.take(r.IntN(4), now) {
						delete(due, w.id)
					}
				case 8:
					now = now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
				case 9:
					owed, request := a.sweepOwed(now)
					if r.IntN(2) == 0 {
						a.sweep()
						request--
					}
					if owed { // it finds what is due, and learns the rest
						_, now := a.sweepOwed(now)
						if now == request {
							for id, when := range due {
								a.by(wake{id: id}, when)
							}
						}
						a.swept(request)
					}
				}
				check("after a step")
			}
		})
	}
}

// What a query saw of an item is old once the log has told that it came to rest.
func TestAgendaKeepsNoTimerOfWhatCameToRest(t *testing.T) {
	a := newAgenda(10)
	a.asking()
	a.at(1, time.Now().Add(time.Minute))
	a.forget(1)
	a.by(wake{id: 1}, time.Now().Add(time.Minute))
	a.learn([]timer{{wake: wake{id: 1}, when: time.Now()}, {wake: wake{id: 2}, when: time.Now().Add(time.Hour)}}, false, time.Time{})
	a.answered()
	if _, later, _ := a.depth(); later != 1 {
		t.Errorf("want a timer for 2 alone, got %d", later)
	}
	a.by(wake{id: 1}, time.Now().Add(time.Minute))
	if _, later, _ := a.depth(); later != 2 {
		t.Errorf("a later query was not believed: %d timers", later)
	}
}
