// Package migrations holds weir's schema and brings a database to it.
//
// The schema is the contract with producers in every language, so its SQL is meant to be read: each
// table explains its columns, and refuses rows that the state machine does not have.
//
// The versions are kept in weir.migrations. Up and Down hold an advisory lock, so several processes
// may start them at once: one works, the others wait and find nothing to do.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// Version is one migration and whether the database has it.
type Version struct {
	Number  int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

// Up applies every migration that the database at url lacks.
func Up(ctx context.Context, url string) error {
	return with(ctx, url, func(db *sql.DB, p *goose.Provider) error {
		if err := createSchema(ctx, db); err != nil {
			return err
		}
		_, err := p.Up(ctx)
		return err
	})
}

// Down undoes the newest migration of the database at url. What its tables held is gone.
func Down(ctx context.Context, url string) error {
	return with(ctx, url, func(db *sql.DB, p *goose.Provider) error {
		if ever, err := migrated(ctx, db); !ever {
			return err
		}
		_, err := p.Down(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return nil
		}
		return err
	})
}

// Status lists all migrations, oldest first. It writes nothing.
func Status(ctx context.Context, url string) ([]Version, error) {
	var versions []Version
	err := with(ctx, url, func(db *sql.DB, p *goose.Provider) error {
		for _, s := range p.ListSources() {
			versions = append(versions, Version{Number: s.Version, Name: name(s.Path)})
		}
		if ever, err := migrated(ctx, db); !ever {
			return err
		}
		all, err := p.Status(ctx)
		for i, s := range all {
			versions[i].Applied = s.State == goose.StateApplied
		}
		return err
	})
	return versions, err
}

// name is "weir" for 0001_weir.sql.
func name(file string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(file, ".sql"), "_")
	return name
}

// with opens the database and gives do a provider of the embedded migrations.
func with(ctx context.Context, url string, do func(*sql.DB, *goose.Provider) error) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("migrate: parse database URL: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if err := check(ctx, db); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	// A lock of weir's own: an application that migrates itself with goose may call Up while it holds goose's.
	const weir = 0x77656972
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(weir), lock.WithLockTimeout(1, 600))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName("weir.migrations"), goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := do(db, provider); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// check refuses a server or database that lacks what the schema takes for granted.
func check(ctx context.Context, db *sql.DB) error {
	var version int
	var encoding string
	err := db.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding')`).
		Scan(&version, &encoding)
	if err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	return suitable(version, encoding)
}

func suitable(version int, encoding string) error {
	if version < 150000 {
		return fmt.Errorf("the server is Postgres %d; weir needs 15 or newer, whose publications have column lists: upgrade the server", version/10000)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database's encoding is %s; identities are hashes of UTF-8: create the database with ENCODING 'UTF8'", encoding)
	}
	return nil
}

// migrated reports whether the database has ever been migrated: whether goose's versions are there.
func migrated(ctx context.Context, db *sql.DB) (ever bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT to_regclass('weir.migrations') IS NOT NULL`).Scan(&ever)
	return ever, err
}

// createSchema creates the schema itself, in which goose keeps its versions.
func createSchema(ctx context.Context, db *sql.DB) error {
	// IF NOT EXISTS is not atomic: of two processes at once, one may lose with a duplicate.
	_, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS weir`)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "23505" || pg.Code == "42P06") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create schema weir: %w", err)
	}
	return nil
}
