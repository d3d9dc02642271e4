package checkpoint

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/replication"
)

// sampler looks at the durable row, and at what the server was told, over and over.
type sampler struct {
	t       *testing.T
	pool    *pgxpool.Pool
	slot    string
	samples map[replication.LSN]machine.Counts // every row that was seen
	stop    func()
}

func sample(t *testing.T, pool *pgxpool.Pool, slot string) *sampler {
	t.Helper()
	s := &sampler{t: t, pool: pool, slot: slot, samples: map[replication.LSN]machine.Counts{}}
	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		var last replication.LSN
		for {
			var err error
			if last, err = s.look(t.Context(), last); err != nil {
				t.Errorf("sampler: %v", err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	s.stop = sync.OnceFunc(func() { cancel(); looking.Wait() })
	t.Cleanup(s.stop)
	return s
}

// look demands Confirmed <= the row, and that the row doesn't go back. The server is asked first: what
// it says may be older than the row, never newer.
func (s *sampler) look(ctx context.Context, last replication.LSN) (replication.LSN, error) {
	confirmed, err := queryLSN(ctx, s.pool, `SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1`, s.slot)
	if err != nil {
		return 0, err
	}
	row, found, err := Load(ctx, s.pool, s.slot)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, nil // the first slot is being made
	case confirmed > row.At:
		s.t.Errorf("the server was told %v, but only %v is durable", confirmed, row.At)
	case row.At < last:
		s.t.Errorf("the row went back from %v to %v", last, row.At)
	}
	if earlier, ok := s.samples[row.At]; ok && !earlier.Equal(row.Counts) {
		s.t.Errorf("the row at %v had %v, and has %v", row.At, earlier.Nested(), row.Counts.Nested())
	}
	s.samples[row.At] = row.Counts
	return row.At, nil
}

// verify demands that every row was exact at its own position. At least min rows must have been seen.
func (s *sampler) verify(w *witness, min int) {
	s.t.Helper()
	s.stop()
	for at, counts := range s.samples {
		s.agree(w, at, counts)
	}
	s.t.Logf("%d rows verified", len(s.samples))
	if len(s.samples) < min {
		s.t.Errorf("only %d rows were seen, want %d", len(s.samples), min)
	}
}

func (s *sampler) agree(w *witness, at replication.LSN, counts machine.Counts) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		reached, err := w.agrees(at, counts)
		if err != nil {
			s.t.Error(err)
		}
		if reached || err != nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(errors.New("the witness doesn't come to the row's position"))
		}
	}
}
