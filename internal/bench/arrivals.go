package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// arrival is what became of one item.
type arrival struct {
	claimed  time.Duration // from the commit to the claim's execution
	arrived  time.Duration // from the commit to the first request at the provider
	accepted time.Duration // from the commit to the one that settled it; 0: it isn't accepted
	billed   int           // by the provider's ledger
}

// arrivals are those of the items of that name. They begin at the commit's own time, which Postgres takes
// before it makes the commit durable: what nobody could have seen any sooner is part of the latency, and it is
// the same time that the log tells the relay.
func (r *rig) arrivals(ctx context.Context, p *provider, name string) ([]arrival, error) {
	rows, err := r.pool.Query(ctx, `
SELECT 'weir_' || encode(o.identity, 'hex'), pg_xact_commit_timestamp(o.xmin), d.first_attempt_at,
       CASE WHEN d.state = 'accepted' THEN pg_xact_commit_timestamp(d.xmin) END
  FROM weir.outbox o
  JOIN weir.deliveries d USING (id)
 WHERE o.tenant_key = 'bench'
   AND o.subject_ref ~ ('^' || $1 || ':[0-9]+$')`, name)
	if err != nil {
		return nil, fmt.Errorf("read commit times: %w", err)
	}
	var all []arrival
	var identifier string
	var commit time.Time
	var claimed, settled *time.Time
	_, err = pgx.ForEachRow(rows, []any{&identifier, &commit, &claimed, &settled}, func() error {
		entry, _ := p.Entry(identifier)
		a := arrival{arrived: entry.FirstReceived.Sub(commit), billed: entry.Billed}
		if claimed != nil {
			a.claimed = claimed.Sub(commit)
		}
		if settled != nil {
			a.accepted = settled.Sub(commit)
		}
		all = append(all, a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read commit times: %w", err)
	}
	return all, nil
}
