package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/outbox"
)

// producer is the service that meters its customers: it commits a few records at a time.
type producer struct {
	items    []outbox.Item
	enqueued atomic.Int64 // committed
}

func (p *producer) read(records io.Reader) error {
	lines := bufio.NewScanner(records)
	for lines.Scan() {
		var item outbox.Item
		if err := json.Unmarshal(lines.Bytes(), &item); err != nil {
			return fmt.Errorf("example record %d: %w", len(p.items)+1, err)
		}
		p.items = append(p.items, item)
	}
	return lines.Err()
}

// run commits the records, one to five in a transaction, rate a second.
func (p *producer) run(ctx context.Context, pool *pgxpool.Pool, rate int) error {
	start := time.Now()
	for i, size := 0, 1; i < len(p.items); size = size%5 + 1 {
		batch := p.items[i:min(i+size, len(p.items))]
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := outbox.Enqueue(ctx, tx, batch...)
			return err
		})
		if err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
		i += len(batch)
		p.enqueued.Store(int64(i))
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Until(due)):
		}
	}
	return nil
}
