package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindByEnvironment(t *testing.T) {
	tests := map[string]struct {
		version string // what the fake postgres prints; empty: there is none
		want    int
		err     string
	}{
		"release":      {version: "postgres (PostgreSQL) 17.2 (Debian 17.2-1)", want: 17},
		"beta":         {version: "postgres (PostgreSQL) 18beta1", want: 18},
		"too old":      {version: "postgres (PostgreSQL) 14.11", err: "need Postgres 15 or newer, got 14"},
		"not Postgres": {version: "something else", err: "need a number"},
		"missing":      {err: "look for initdb"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.version != "" {
				script(t, dir, "initdb", "")
				script(t, dir, "postgres", "echo '"+tt.version+"'")
			}
			t.Setenv("WEIR_POSTGRES_BIN", dir)
			b, err := Find(t.Context())
			if tt.err == "" && (err != nil || b.Major != tt.want || b.Dir != dir) {
				t.Errorf("want %d in %s, got %+v, %v", tt.want, dir, b, err)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("want an error with %q, got %v", tt.err, err)
			}
		})
	}
}

func TestNewestFirst(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"9", "17", "16"} {
		if err := os.MkdirAll(filepath.Join(dir, "v"+version), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, d := range newestFirst(filepath.Join(dir, "v*")) {
		got = append(got, filepath.Base(d))
	}
	if want := "[v17 v16 v9]"; fmt.Sprint(got) != want {
		t.Errorf("want %s, got %v", want, got)
	}
}

func TestErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("WEIR_POSTGRES_BIN", "")
	_, err := firstUsable(context.Background(), []string{t.TempDir()})
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("want ErrNotInstalled and what to do, got %v", err)
	}
}

func script(t *testing.T, dir, name, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
