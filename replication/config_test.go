package replication

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	good := Config{URL: "postgres://h/d"}
	if err := good.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	tests := []struct {
		name string
		set  func(*Config)
		says string
	}{
		{"no URL", func(c *Config) { c.URL = "" }, "URL"},
		{"slot in capitals", func(c *Config) { c.Slot = "Weir" }, "slot"},
		{"slot too long", func(c *Config) { c.Slot = strings.Repeat("w", 64) }, "slot"},
		{"slot with a quote", func(c *Config) { c.Slot = "w' (" }, "slot"},
		{"publication with a quote", func(c *Config) { c.Publication = `w"` }, "publication"},
		{"status interval", func(c *Config) { c.StatusInterval = time.Millisecond }, "status interval"},
		{"no timeout", func(c *Config) { c.WalSenderTimeout = -1 }, "wal sender timeout"}, // lesson 17
		{"backoff the wrong way round", func(c *Config) { c.BackoffMin = time.Hour }, "backoff"},
		{"rest", func(c *Config) { c.FuseRest = -1 }, "fuse rest"},
		{"negative fuse", func(c *Config) { c.Fuse = -1 }, "fuse"},
		{"fuse without eyes", func(c *Config) { c.Fuse = 1 << 30 }, "without DB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := good
			test.set(&c)
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want an error that says %q", err, test.says)
			}
		})
	}
}

// lesson 17: the server is told at least twice within its patience, whatever the status interval.
func TestStatusEvery(t *testing.T) {
	for _, c := range []Config{{}, {StatusInterval: time.Hour}, {WalSenderTimeout: time.Second}, {StatusInterval: time.Second}} {
		c = c.withDefaults()
		if every := c.statusEvery(); every > c.StatusInterval || every > c.WalSenderTimeout/2 || every <= 0 {
			t.Errorf("status every %v with interval %v and timeout %v", every, c.StatusInterval, c.WalSenderTimeout)
		}
	}
}

// lesson 10: pauses grow to their bound and no further, with jitter.
func TestBackoff(t *testing.T) {
	c := Config{}.withDefaults()
	pauses := map[time.Duration]bool{}
	for range 100 {
		pauses[c.backoff(9)] = true
	}
	if len(pauses) < 50 {
		t.Errorf("%d different pauses of 100: relays that were cut off together come back together", len(pauses))
	}
	for failures := range 100 {
		base := min(c.BackoffMax, c.BackoffMin<<min(failures, 20))
		if d := c.backoff(failures); d < base || d > base*5/4 {
			t.Errorf("after %d failures %v, want %v and up to a quarter", failures, d, base)
		}
	}
}

// lesson "slot names": the name is the same on every host, so that a process that moves finds its slot, and leaves none
// behind to keep the log.
func TestSlotIsTheSameOnEveryHost(t *testing.T) {
	if c := (Config{}).withDefaults(); c.Slot != "weir" || c.Publication != "weir" {
		t.Errorf("slot %q, publication %q by default, want weir", c.Slot, c.Publication)
	}
}
