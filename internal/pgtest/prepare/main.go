// Command prepare gets the Postgres server that package pgtest needs, where it is missing: it installs the
// server programs on Debian and Ubuntu as root, and says what to do elsewhere. Where WEIR_TEST_POSTGRES has chosen
// another server, and where Docker runs, it does nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/weir-relay/weir/internal/postgres"
)

func main() {
	if err := prepare(context.Background(), os.Getenv("WEIR_TEST_POSTGRES")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func prepare(ctx context.Context, mode string) error {
	if mode != "" && mode != "auto" && mode != "local" {
		return nil
	}
	_, missing := postgres.Find(ctx)
	if missing == nil {
		return nil
	}
	if !errors.Is(missing, postgres.ErrNotInstalled) {
		return missing
	}
	err := postgres.Install(ctx, os.Stderr)
	if err != nil && mode != "local" && exec.CommandContext(ctx, "docker", "info").Run() == nil {
		return nil // the tests take a container
	}
	return err
}
