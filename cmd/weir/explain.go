package main

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-relay/weir/internal/config"
)

// unreachableError is a database that doesn't answer.
type unreachableError struct {
	url config.DSN
	err error
}

func (e *unreachableError) Error() string { return fmt.Sprintf("connect to %v: %v", e.url, e.err) }
func (e *unreachableError) Unwrap() error { return e.err }

// hints say what to do about errors of Postgres, by SQLSTATE or its class.
var hints = map[string]string{
	"3F000": "the schema weir isn't there: run weir migrate up",
	"42P01": "the schema weir is missing or old: run weir migrate up",
	"42703": "the schema weir is older or newer than this program: run weir migrate status",
	"42883": "the schema weir is older than this program: run weir migrate up",
	"42501": "the role lacks a privilege: weir doctor says which a relay's role lacks, docs/operation.md what a producer's needs",
	"28P01": "the password is wrong: correct database.url",
	"28000": "the server refuses this role or address: correct database.url, or pg_hba.conf",
	"3D000": "there is no such database: correct database.url, or create it",
	"53300": "the server has no connection left: raise max_connections, or end what holds them",
	"57P03": "the server is starting or stopping: try again in a moment",
	"25006": "this is a standby or a read-only session: connect to the primary",
	"55006": "something else uses it: stop the relay that holds it first",
}

// explain says what to do about err, "" where the error says it itself.
func explain(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return hints[pg.Code]
	}
	var unreachable *unreachableError
	if errors.As(err, &unreachable) {
		return "check that the server runs and that database.url names it: weir config show says where the value comes from"
	}
	return ""
}
