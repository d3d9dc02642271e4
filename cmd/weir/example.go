package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/examples"
	"github.com/weir-relay/weir/outbox"
)

// example is the example usage, moved to the present, or to where it was when it was first put into the outbox:
// with other timestamps it would be other payloads under the same identities.
func (a *app) example(ctx context.Context, dryRun bool, defaults outbox.Item) (io.Reader, error) {
	now := time.Now()
	usage, err := examples.Usage(now)
	if err != nil || dryRun {
		return usage, err
	}
	first, err := newLines(usage).next()
	if err == nil {
		err = first.err
	}
	if err != nil {
		return nil, fmt.Errorf("example: %w", err)
	}
	first.complete(defaults)
	here, err := exampleTime(first.item)
	if err != nil {
		return nil, fmt.Errorf("example: %w", err)
	}
	there, err := a.enqueuedTime(ctx, first.item)
	if err != nil {
		return nil, err
	}
	if !there.IsZero() {
		now = now.Add(there.Sub(here))
	}
	return examples.Usage(now)
}

// enqueuedTime is the timestamp of the item in the outbox, zero where it isn't there.
func (a *app) enqueuedTime(ctx context.Context, item outbox.Item) (time.Time, error) {
	pool, err := a.pool(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer pool.Close()
	const find = `SELECT payload FROM weir.outbox WHERE identity = decode(substr($1, length('weir_') + 1), 'hex')`
	var payload json.RawMessage
	err = pool.QueryRow(ctx, find, outbox.Identifier(item)).Scan(&payload)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("look for the example in the outbox: %w", err)
	}
	item.Payload = payload
	return exampleTime(item)
}

func exampleTime(item outbox.Item) (time.Time, error) {
	payload, ok := item.Payload.(json.RawMessage)
	if !ok {
		return time.Time{}, fmt.Errorf("%s: need a payload of JSON, got %T", item.SubjectRef, item.Payload)
	}
	var p struct{ Timestamp time.Time }
	if err := json.Unmarshal(payload, &p); err != nil {
		return time.Time{}, fmt.Errorf("%s: payload: %w", item.SubjectRef, err)
	}
	return p.Timestamp, nil
}
