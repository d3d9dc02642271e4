package pgtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weir-relay/weir/internal/postgres"
)

func local(ctx context.Context) (string, func() error, error) {
	c, err := postgres.Start(ctx, postgres.Options{NoFsync: true})
	if err != nil {
		return "", nil, err
	}
	return c.URL("postgres"), c.Stop, nil
}

// auto takes docker only where no server programs are: a local server that is
// there and doesn't start is a fault to be seen.
func auto(ctx context.Context) (string, func() error, error) {
	url, stop, localErr := local(ctx)
	if !errors.Is(localErr, postgres.ErrNotInstalled) {
		return url, stop, localErr
	}
	url, stop, dockerErr := docker(ctx)
	if dockerErr != nil {
		return "", nil, errors.Join(errors.New("tests need a Postgres server: install one (Debian and Ubuntu: apt-get install postgresql), start Docker, or set WEIR_TEST_POSTGRES to the URL of one"),
			fmt.Errorf("local: %w", localErr), fmt.Errorf("docker: %w", dockerErr))
	}
	return url, stop, nil
}

// Cluster starts a server for this test alone, to be crashed and restarted. It
// is stopped when the test ends; if the test failed, its log is shown. The
// server programs must be on this machine: the test is skipped where
// WEIR_TEST_POSTGRES chose docker or a URL, or auto found nothing but docker.
func Cluster(t testing.TB, opts postgres.Options) *postgres.Cluster {
	t.Helper()
	m := mode()
	if m != "auto" && m != "local" {
		t.Skipf("needs a server that it can crash: unset WEIR_TEST_POSTGRES=%s", m)
	}
	opts.NoFsync = true
	c, err := postgres.Start(t.Context(), opts)
	if m == "auto" && errors.Is(err, postgres.ErrNotInstalled) {
		sharedServer(t) // fails the test where docker is missing too
		t.Skipf("needs a server that it can crash, and only docker is here: %v", err)
	}
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("server log ends:\n%s", c.LogTail())
		}
		if err := c.Stop(); err != nil {
			t.Errorf("pgtest: stop cluster: %v", err)
		}
	})
	return c
}
