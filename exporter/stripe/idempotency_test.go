package stripe

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-relay/weir/machine"
)

// Which Idempotency-Key follows which answer. The key is shown by its generation.
func TestIdempotencyKey(t *testing.T) {
	lost := cuts("", true)
	failed := answers(500, refusal("", "An unknown error occurred"))
	limited := answers(429, refusal("rate_limit", "slow down"))
	inUse := answers(409, refusal("idempotency_key_in_use", "another request"))
	unfit := answers(400, refusal("", "Something new."))
	silent := func(_ http.ResponseWriter, r *http.Request) { hang(r) }
	unreadable, proxied, forbidden := answers(200, html), answers(502, html), answers(403, refusal("", "no permission"))
	tests := []struct {
		name    string
		answers []http.HandlerFunc // of the attempts, whose claims have the tokens 1, 2, 3…
		want    string
	}{
		{"a lost answer repeats", []http.HandlerFunc{lost, lost, lost}, "1 1 1"},
		{"through 409 and 429", []http.HandlerFunc{lost, inUse, limited, lost, lost}, "1 1 1 1 1"},
		{"so does one that came too late", []http.HandlerFunc{silent, lost}, "1 1"},
		{"so does one that can't be read", []http.HandlerFunc{unreadable, proxied, forbidden, lost}, "1 1 1 1"},
		{"until an answer", []http.HandlerFunc{lost, failed, lost, lost}, "1 1 3 3"},
		{"a 5xx renews", []http.HandlerFunc{failed, failed, failed}, "1 2 3"},
		{"a refusal renews", []http.HandlerFunc{unfit, unfit}, "1 2"},
		{"429 alone doesn't matter", []http.HandlerFunc{limited, limited}, "1 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			var keys []string
			server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				n := len(keys)
				keys = append(keys, r.Header.Get("Idempotency-Key"))
				mu.Unlock()
				tt.answers[n](w, r)
			})
			// Each on its own connection: net/http repeats a request that a kept connection has lost.
			e := newExporter(t, server.URL, func(c *Config) {
				c.Transport = &http.Transport{DisableKeepAlives: true}
				c.Timeout = time.Second
			})
			item := newItem(tt.name)
			var got []string
			for range tt.answers {
				deliverOne(t, e, item)
				item = again(item)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				generation, ok := strings.CutPrefix(key, item.Identifier()+"-")
				if !ok {
					t.Errorf("key %q doesn't start with the identifier", key)
				}
				got = append(got, generation)
			}
			if !slices.Equal(got, strings.Fields(tt.want)) {
				t.Errorf("generations %v, want %s", got, tt.want)
			}
		})
	}
}

// A caller that gives up, as at a shutdown, leaves a request behind.
func TestIdempotencyKeyAfterGivingUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := newServer(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); hang(r) })
	e := newExporter(t, server.URL, nil)
	item := newItem("x")
	if o := e.Deliver(ctx, []machine.Item{item}); o[0].Code != "cancelled" {
		t.Fatalf("outcome %+v", o[0])
	}
	item = again(item)
	if got, want := e.generations.key(&item, "x"), "x-1"; got != want {
		t.Errorf("key %q, want %q", got, want)
	}
}

func TestGenerationsAreBounded(t *testing.T) {
	g := newGenerations()
	g.limit = 3
	for i := range 10 {
		item := newItem(fmt.Sprint(i))
		g.settle(&item, repeated)
		if len(g.open) > g.limit {
			t.Fatalf("%d remembered, limit %d", len(g.open), g.limit)
		}
	}
	last := newItem("9")
	if key := g.key(&machine.Item{Identity: last.Identity, Token: 5}, "x"); key != "x-1" {
		t.Errorf("key %q: the latest must be remembered", key)
	}
}

// net/http repeats what a dead kept connection swallowed: with the same identifier and key, so both guards hold.
func TestDeadConnectionIsRepeatedUnchanged(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Get("Idempotency-Key"))
		n := len(seen)
		mu.Unlock()
		if n == 2 {
			cuts("", false)(w, r)
			return
		}
		created(w, r, false)
	})
	e := newExporter(t, server.URL, nil)
	for _, ref := range []string{"first", "second"} {
		if o := deliverOne(t, e, newItem(ref)); o.Ref != "req_1" {
			t.Fatalf("%s: outcome %+v", ref, o)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 3 || seen[1] != seen[2] || seen[0] == seen[1] {
		t.Errorf("keys %v, want the second one twice", seen)
	}
}
