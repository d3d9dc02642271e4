package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/outbox"
)

// Report is what came of a demo. What was enqueued is the producer's word, what was billed the stand-in's;
// weir's is asked only for items that were not billed.
type Report struct {
	Enqueued    int `json:"enqueued"`
	Eligible    int `json:"eligible"`     // enqueued, and not visibly held back
	BilledOnce  int `json:"billed_once"`  // of the eligible
	BilledTwice int `json:"billed_twice"` // or more often
	Lost        int `json:"lost"`         // not billed, and not visibly held back either
	Quarantined int `json:"quarantined"`
	Rejected    int `json:"rejected"`
	Uncertain   int `json:"uncertain"`

	// CommitToSend is measured from an item's commit to the moment at which its first request reached the
	// stand-in, for all items that neither were committed nor sent first while no relay ran.
	CommitToSend Latency `json:"commit_to_send_ms"`
	// Interrupted is the same for the others.
	Interrupted Latency `json:"interrupted_ms"`
	// Outage is how long no relay streamed, from the SIGKILL on.
	Outage float64 `json:"outage_ms"`

	ReplicationLagBytes uint64         `json:"replication_lag_bytes"` // at the end
	Faults              map[string]int `json:"faults"`                // of the stand-in, and how often they fired
	Requests            int            `json:"requests"`              // that the stand-in received
	Seconds             float64        `json:"seconds"`

	Evidence *Evidence `json:"evidence"`
}

// Latency is a distribution, in milliseconds.
type Latency struct {
	Items int     `json:"items"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Err says what a demo that failed did wrong, nil where everything eligible was billed once.
func (r *Report) Err() error {
	if r.Lost == 0 && r.BilledTwice == 0 && r.BilledOnce == r.Eligible {
		return r.Evidence.Err()
	}
	return fmt.Errorf("%d lost, %d billed twice, %d of %d billed once: please report this with the output above",
		r.Lost, r.BilledTwice, r.BilledOnce, r.Eligible)
}

// fate is what weir says of an item.
type fate struct {
	state  machine.State
	commit time.Time // of the transaction that enqueued it
}

func (d *Demo) report(ctx context.Context, gap outage, took time.Duration) (*Report, error) {
	fates, err := d.fates(ctx)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	r := &Report{
		Enqueued: int(d.producer.enqueued.Load()),
		Outage:   milliseconds(gap.to.Sub(gap.from)),
		Faults:   map[string]int{},
		Seconds:  took.Seconds(),
	}
	var steady, interrupted []time.Duration
	for i := range d.producer.items {
		identifier := outbox.Identifier(d.producer.items[i])
		entry, _ := d.stripe.Entry(identifier)
		fate := fates[identifier]
		r.count(entry.Billed, fate.state)
		r.Requests += entry.Received
		if entry.Billed == 0 {
			continue
		}
		latency := entry.FirstReceived.Sub(fate.commit)
		if fate.commit.Before(gap.to) && entry.FirstReceived.After(gap.from) {
			interrupted = append(interrupted, latency)
		} else {
			steady = append(steady, latency)
		}
	}
	r.CommitToSend, r.Interrupted = distribution(steady), distribution(interrupted)
	for _, f := range d.stripe.Faults() {
		r.Faults[f.Name] = f.Fired
	}
	status, err := d.relay.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("report: ask the relay: %w", err)
	}
	r.ReplicationLagBytes = status.Stream.LagBytes
	return r, nil
}

// count sorts one item in.
func (r *Report) count(billed int, state machine.State) {
	switch {
	case billed > 1:
		r.Eligible++
		r.BilledTwice++
	case billed == 1:
		r.Eligible++
		r.BilledOnce++
	case state == machine.Quarantined:
		r.Quarantined++
	case state == machine.Rejected:
		r.Rejected++
	case state == machine.Uncertain:
		r.Uncertain++
	default:
		r.Eligible++
		r.Lost++
	}
}

// fates reads what weir says of every item.
func (d *Demo) fates(ctx context.Context) (map[string]fate, error) {
	rows, err := d.pool.Query(ctx, `
SELECT 'weir_' || encode(o.identity, 'hex'), d.state, pg_xact_commit_timestamp(o.xmin)
  FROM weir.outbox o
  JOIN weir.deliveries d USING (id)`)
	if err != nil {
		return nil, err
	}
	fates := make(map[string]fate)
	var identifier string
	var f fate
	_, err = pgx.ForEachRow(rows, []any{&identifier, &f.state, &f.commit}, func() error {
		fates[identifier] = f
		return nil
	})
	return fates, err
}

func distribution(latencies []time.Duration) Latency {
	if len(latencies) == 0 {
		return Latency{}
	}
	slices.Sort(latencies)
	at := func(q float64) float64 { return milliseconds(latencies[int(q*float64(len(latencies)-1))]) }
	return Latency{Items: len(latencies), P50: at(0.5), P99: at(0.99), Max: at(1)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
