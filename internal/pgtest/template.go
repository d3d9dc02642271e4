package pgtest

import (
	"context"
	"fmt"

	"github.com/weir-relay/weir/migrations"
)

// makeTemplate migrates one database, which the others are copied from: a copy
// takes milliseconds, and every migration is still run once by each test binary.
func (s *server) makeTemplate() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	name := uniqueName("weir_template")
	if _, err := s.admin.Exec(ctx, "CREATE DATABASE "+identifier(name)); err != nil {
		return "", err
	}
	s.template = name
	if err := migrations.Up(ctx, withDatabase(s.url, name)); err != nil {
		return "", err
	}
	// A template with a connection can't be copied.
	if _, err := s.admin.Exec(ctx, "ALTER DATABASE "+identifier(name)+" ALLOW_CONNECTIONS false"); err != nil {
		return "", err
	}
	return name, nil
}

func (s *server) dropTemplate() error {
	if s.template == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	if err := s.drop(ctx, s.template); err != nil {
		return fmt.Errorf("drop template: %w", err)
	}
	return nil
}
