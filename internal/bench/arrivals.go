package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// arrivals adds the latencies of the items of that name. They begin at the commit's own time, which Postgres
// takes before it makes the commit durable: what nobody could have seen any sooner is part of the latency, and
// it is the same time that the log tells the relay.
func (r *rig) arrivals(ctx context.Context, p *provider, name string, arrived, accepted histogram) error {
	rows, err := r.pool.Query(ctx, `
SELECT 'weir_' || encode(o.identity, 'hex'), pg_xact_commit_timestamp(o.xmin),
       CASE WHEN d.state = 'accepted' THEN pg_xact_commit_timestamp(d.xmin) END
  FROM weir.outbox o
  JOIN weir.deliveries d USING (id)
 WHERE o.tenant_key = 'bench'
   AND o.subject_ref LIKE $1 || ':%'
   AND o.subject_ref NOT LIKE $1 || ':warm:%'`, name)
	if err != nil {
		return fmt.Errorf("read commit times: %w", err)
	}
	var identifier string
	var commit time.Time
	var settled *time.Time
	_, err = pgx.ForEachRow(rows, []any{&identifier, &commit, &settled}, func() error {
		entry, ok := p.Entry(identifier)
		if !ok {
			return fmt.Errorf("%s never arrived", identifier)
		}
		arrived.add(entry.FirstReceived.Sub(commit))
		if settled != nil {
			accepted.add(settled.Sub(commit))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read commit times: %w", err)
	}
	return nil
}
