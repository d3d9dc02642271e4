package bench

import (
	"context"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/weir-relay/weir/machine"
)

// ceilingBatch is how many items a claim and an accept have at once, as in a relay.
const ceilingBatch = 1000

// ceiling is the most that the statements of package machine can do over as many connections as a lane
// uses: one claims, and hands what it has to the other, which accepts. Nothing is sent, nobody listens.
type ceiling struct{ claims, accepts *pgx.Conn }

func (s *server) openCeiling(ctx context.Context) (c ceiling, err error) {
	if c.claims, err = s.connect(ctx, machine.SessionParameters()); err != nil {
		return c, err
	}
	if c.accepts, err = s.connect(ctx, machine.SessionParameters()); err != nil {
		c.close(ctx)
	}
	return c, err
}

func (c ceiling) close(ctx context.Context) {
	for _, conn := range []*pgx.Conn{c.claims, c.accepts} {
		if conn != nil {
			conn.Close(ctx) //nolint:errcheck // nothing is under way
		}
	}
}

// run drains the reference lane.
func (c ceiling) run(ctx context.Context) error {
	claimed := make(chan []machine.Item, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(claimed)
		store := machine.NewStore(c.claims, machine.DefaultPolicy())
		for last := int64(0); ; {
			items, err := store.Sweep(ctx, machine.Claimer{Exporter: referenceLane, Owner: "ceiling"}, last, ceilingBatch)
			if err != nil || len(items) == 0 {
				return err
			}
			last = items[len(items)-1].ID
			select {
			case claimed <- items:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	group.Go(func() error {
		store := machine.NewStore(c.accepts, machine.DefaultPolicy())
		for items := range claimed {
			accepted := make([]machine.Acceptance, len(items))
			for i := range items {
				accepted[i].Ref = items[i].Ref()
			}
			if _, err := store.Accept(ctx, accepted); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}
