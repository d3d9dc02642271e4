package main

import (
	"bytes"
	"os"
	"testing"
)

func TestSameBytes(t *testing.T) {
	want, err := os.ReadFile("../usage.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("usage.ndjson is not what this program writes: run go generate ./examples")
	}
}

func TestDecimal(t *testing.T) {
	for _, tt := range []struct {
		n, places int
		want      string
	}{{12345, 3, "12.345"}, {12300, 3, "12.3"}, {12000, 3, "12"}, {5, 3, "0.005"}, {0, 1, "0"}} {
		if got := decimal(tt.n, tt.places); got != tt.want {
			t.Errorf("%d/10^%d: want %s, got %s", tt.n, tt.places, tt.want, got)
		}
	}
}
