package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// operationTimeout bounds each thing that the package itself does on a server
// that is up.
const operationTimeout = 30 * time.Second

// server is the one server of a test binary.
type server struct {
	url      string                 // of the maintenance database
	admin    *pgxpool.Pool          // to the maintenance database
	stop     func() error           // ends what open started
	tmpl     func() (string, error) // makeTemplate at the first call, then its answer
	template string                 // database that makeTemplate made; read by close, after the tests
}

// shared is a global because the testing package offers no other place that
// outlives one test and is seen by all of them.
var shared struct {
	once sync.Once
	*server
	err error
}

// Main runs the tests and stops the server. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		if err := shared.close(); err != nil {
			fmt.Fprintf(os.Stderr, "pgtest: stop server: %v\n", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func sharedServer(t testing.TB) *server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = open(context.WithoutCancel(t.Context())) })
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	return shared.server
}

func open(ctx context.Context) (*server, error) {
	url, stop, err := provide(ctx, mode())
	if err != nil {
		return nil, err
	}
	s := &server{url: url, stop: stop}
	s.tmpl = sync.OnceValues(s.makeTemplate)
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	return s, nil
}

func (s *server) connect(ctx context.Context) (err error) {
	if s.admin, err = pgxpool.New(ctx, s.url); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	var level string
	if err := s.admin.QueryRow(ctx, "SHOW wal_level").Scan(&level); err != nil {
		return fmt.Errorf("ask for wal_level: %w", err)
	}
	if level != "logical" {
		return fmt.Errorf("wal_level: need logical, got %s: set it and restart that server", level)
	}
	return nil
}

func (s *server) close() error {
	err := s.dropTemplate()
	s.admin.Close()
	return errors.Join(err, s.stop())
}

func mode() string {
	if m := os.Getenv("WEIR_TEST_POSTGRES"); m != "" {
		return m
	}
	return "auto"
}

func provide(ctx context.Context, mode string) (url string, stop func() error, err error) {
	switch {
	case mode == "auto":
		return auto(ctx)
	case mode == "local":
		return local(ctx)
	case mode == "docker":
		return docker(ctx)
	case strings.HasPrefix(mode, "postgres://"), strings.HasPrefix(mode, "postgresql://"):
		return mode, func() error { return nil }, nil
	default:
		return "", nil, fmt.Errorf("WEIR_TEST_POSTGRES: need auto, local, docker or a postgres:// URL, got %q", mode)
	}
}
