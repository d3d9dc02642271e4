package main

import (
	"strings"
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Millisecond: "1s", 310 * time.Second: "5m10s", 26 * time.Hour: "1d2h", 3 * time.Hour: "3h0m", -time.Minute: "-1m0s",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 16 << 20: "16.0 MiB", 3 << 40: "3.0 TiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	table(&b, []string{"A", "LONG"}, [][]string{{"xxxx", "1"}, {"é", "a\tb\u202e"}})
	if got, want := b.String(), "A     LONG\nxxxx  1\né     a�b�\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := short("äöüß", 3); got != "äö…" {
		t.Errorf("got %s", got)
	}
}
