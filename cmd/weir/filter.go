package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"

	"github.com/weir-relay/weir/internal/config"
	"github.com/weir-relay/weir/machine"
)

// filterFlags are those by which list and the acting commands narrow a selection down.
func (s *selection) filterFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.exporter, "exporter", "", "only items of this `lane`")
	flags.StringVar(&s.tenant, "tenant", "", "only items of this `tenant_key`")
	flags.StringVar(&s.mapping, "mapping-version", "", "only items staged under this `version`")
	flags.StringVar(&s.reason, "quarantine-reason", "", "only items quarantined for this `reason`")
	flags.StringVar(&s.code, "error", "", "only items whose last_error begins with this `text`, as in http_500")
}

// narrowed reports whether a filter was given.
func (s *selection) narrowed() bool {
	return s.exporter != "" || s.tenant != "" || s.mapping != "" || s.reason != "" || s.code != ""
}

// checkStates refuses a state that the machine doesn't have.
func checkStates(states []string) error {
	var known []string
	for _, s := range machine.States {
		known = append(known, string(s))
	}
	for _, s := range states {
		if slices.Contains(known, s) {
			continue
		}
		hint := ""
		if near := config.Nearest(s, known); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
		}
		return usagef("--state %q: there are %s%s", s, strings.Join(known, ", "), hint)
	}
	return nil
}

// resolve answers the ids that names mean: ids themselves, or identifiers, which the provider knows.
func resolve(ctx context.Context, db *pgxpool.Pool, names []string) ([]int64, error) {
	ids := make([]int64, 0, len(names))
	for _, name := range names {
		id, err := resolveOne(ctx, db, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func resolveOne(ctx context.Context, db *pgxpool.Pool, name string) (int64, error) {
	if id, err := strconv.ParseInt(name, 10, 64); err == nil && id > 0 {
		return id, nil
	}
	digits, ok := strings.CutPrefix(name, "weir_")
	identity, err := hex.DecodeString(digits)
	if !ok || err != nil || len(identity) != 32 {
		return 0, usagef("%q is neither an id nor an identifier: write a number, or weir_ and 64 hex digits", name)
	}
	rows, err := db.Query(ctx, `SELECT id FROM weir.outbox WHERE identity = $1`, identity)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	if len(ids) == 0 {
		return 0, fmt.Errorf("item %s: %w: it was never enqueued here, or was removed by weir gc", name, machine.ErrNotFound)
	}
	return ids[0], nil
}
