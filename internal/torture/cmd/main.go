// Command torture runs seeds of package torture, and says which failed.
//
//	go run ./internal/torture/cmd -start 1 -seeds 20
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-relay/weir/internal/torture"
)

func main() {
	start := flag.Uint64("start", 1, "the first seed")
	seeds := flag.Uint64("seeds", 20, "how many seeds")
	program := flag.String("program", "", "weir's executable; empty: it is built here, with the race detector")
	dir := flag.String("dir", filepath.Join(os.TempDir(), "weir-torture"), "the folder that gets the evidence of failures")
	keep := flag.Bool("keep", false, "keep the evidence of passed seeds too")
	strikes := flag.String("strikes", "", "the only kinds of strikes, separated by commas; empty: all")
	relays := flag.Int("relays", 0, "how many relays; 0: as the seed has it")
	flag.Parse()
	var kinds []string
	if *strikes != "" {
		kinds = strings.Split(*strikes, ",")
	}
	failed, err := run(context.Background(), *start, *seeds, torture.Options{Program: *program, Dir: *dir, Keep: *keep, Strikes: kinds, Relays: *relays})
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
	fmt.Printf("%d passed, %d failed\n", int(*seeds)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, start, seeds uint64, o torture.Options) (failed int, err error) {
	if o.Program == "" {
		folder, err := os.MkdirTemp("", "weir-torture-build-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(folder)
		o.Program = filepath.Join(folder, "weir")
		build := exec.Command("go", "build", "-race", "-o", o.Program, "./cmd/weir")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return 0, fmt.Errorf("build weir: %w", err)
		}
	}
	arena, err := torture.Open(ctx, o)
	if err != nil {
		return 0, err
	}
	defer arena.Close()
	for seed := start; seed < start+seeds; seed++ {
		begun := time.Now()
		err := arena.Run(ctx, seed)
		took := time.Since(begun).Seconds()
		if err == nil {
			fmt.Printf("seed %d: ok, %.1f s\n", seed, took)
			continue
		}
		failed++
		fmt.Printf("FAILED after %.1f s: %v\nagain: go run ./internal/torture/cmd -start %d -seeds 1\n", took, err, seed)
	}
	return failed, nil
}
