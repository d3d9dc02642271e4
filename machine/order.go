package machine

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// successorSQL finds, for each line that has moved, its earliest open item.
var successorSQL = map[Order]string{
	PerKey: `
SELECT (SELECT e.id FROM weir.deliveries e
         WHERE e.open AND e.exporter = $1 AND e.source = l.source AND e.order_key = l.order_key
         ORDER BY e.id LIMIT 1)
  FROM (SELECT DISTINCT source, order_key FROM unnest($2::text[], $3::text[]) AS u (source, order_key)) l
 WHERE l.order_key <> ''`,

	PerSource: `
SELECT (SELECT min(e.id) FROM weir.deliveries e
         WHERE e.open AND e.exporter = $1 AND e.source = l.source)
  FROM (SELECT DISTINCT source FROM unnest($2::text[], $3::text[]) AS u (source, order_key)) l
 WHERE l.source <> ''`,

	StopTheLine: `
SELECT (SELECT min(e.id) FROM weir.deliveries e WHERE e.open AND e.exporter = $1)
 WHERE cardinality($2::text[]) + cardinality($3::text[]) > 0`,
}

// Successors answers the items that may be next in their lines once the given items, of one exporter, have
// left theirs. It is empty where the lane isn't ordered.
func (s *Store) Successors(ctx context.Context, c Claimer, items []Item) ([]int64, error) {
	sql, ordered := successorSQL[c.Order]
	if !ordered || len(items) == 0 {
		return nil, nil
	}
	rows, err := s.db.Query(ctx, sql, c.Exporter,
		column(items, func(it *Item) string { return it.Source }),
		column(items, func(it *Item) string { return it.OrderKey }))
	if err != nil {
		return nil, fmt.Errorf("successors: %w", err)
	}
	heads, err := pgx.CollectRows(rows, pgx.RowTo[*int64])
	if err != nil {
		return nil, fmt.Errorf("successors: %w", err)
	}
	var ids []int64
	for _, id := range heads {
		if id != nil {
			ids = append(ids, *id)
		}
	}
	return ids, nil
}
