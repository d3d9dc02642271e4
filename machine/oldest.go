package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Oldest answers, for each of the exporters that has open items, how long ago the first of them entered the
// outbox. It reads one row of the index for each.
func (s *Store) Oldest(ctx context.Context, exporters []string) (map[string]time.Duration, error) {
	rows, err := s.db.Query(ctx, `
SELECT e.name, extract(epoch FROM clock_timestamp() - o.inserted_at)::float8
  FROM unnest($1::text[]) AS e (name)
 CROSS JOIN LATERAL (
       SELECT d.id FROM weir.deliveries d WHERE d.exporter = e.name AND d.open ORDER BY d.id LIMIT 1) d
  JOIN weir.outbox o ON o.id = d.id`, exporters)
	if err != nil {
		return nil, fmt.Errorf("oldest open item: %w", err)
	}
	ages := make(map[string]time.Duration)
	var exporter string
	var age float64
	_, err = pgx.ForEachRow(rows, []any{&exporter, &age}, func() error {
		ages[exporter] = time.Duration(age * float64(time.Second))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("oldest open item: %w", err)
	}
	return ages, nil
}

// attentionMost bounds what Attention counts for one exporter: beyond it, how many there are is no news.
const attentionMost = 10000

// Attention answers, for each of the exporters, how many of its items wait for a person: uncertain, rejected or
// quarantined, and not abandoned. It counts to 10,000.
func (s *Store) Attention(ctx context.Context, exporters []string) (map[string]int64, error) {
	rows, err := s.db.Query(ctx, `
SELECT e.name, (SELECT count(*) FROM (
       SELECT FROM weir.deliveries d WHERE d.attention AND d.exporter = e.name LIMIT $2) d)
  FROM unnest($1::text[]) AS e (name)`, exporters, attentionMost)
	if err != nil {
		return nil, fmt.Errorf("items that wait for a person: %w", err)
	}
	waiting := make(map[string]int64)
	var exporter string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&exporter, &n}, func() error {
		waiting[exporter] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("items that wait for a person: %w", err)
	}
	return waiting, nil
}
