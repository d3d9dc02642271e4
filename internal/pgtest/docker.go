package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
)

const (
	defaultImage  = "postgres:17"
	dockerTimeout = 3 * time.Minute // the image may have to be pulled
)

// docker starts a container. Testcontainers removes it also when this process
// is killed.
func docker(ctx context.Context) (_ string, _ func() error, err error) {
	// Testcontainers panics where it finds no Docker.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("docker: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, dockerTimeout, fmt.Errorf("container not ready after %v", dockerTimeout))
	defer cancel()
	image := os.Getenv("WEIR_TEST_IMAGE")
	if image == "" {
		image = defaultImage
	}
	container, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"}),
		testcontainers.WithExposedPorts("5432/tcp"),
		testcontainers.WithCmd("postgres",
			"-c", "wal_level=logical",
			"-c", "max_replication_slots=20",
			"-c", "max_wal_senders=20",
			"-c", "max_connections=200",
			"-c", "fsync=off"))
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("run %s: %w", image, err), testcontainers.TerminateContainer(container))
	}
	stop := func() error { return testcontainers.TerminateContainer(container) }
	url, err := containerURL(ctx, container)
	if err == nil {
		err = ready(ctx, url)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("wait for %s: %w", image, err), stop())
	}
	return url, stop, nil
}

func containerURL(ctx context.Context, c *testcontainers.DockerContainer) (string, error) {
	host, err := c.Host(ctx)
	if err != nil {
		return "", err
	}
	port, err := c.MappedPort(ctx, "5432/tcp")
	if err != nil {
		return "", err
	}
	return "postgres://postgres@" + net.JoinHostPort(host, port.Port()) + "/postgres?sslmode=disable", nil
}

// ready returns when the server answers over TCP. The image's first server,
// which only runs its set-up scripts, doesn't listen there.
func ready(ctx context.Context, url string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
