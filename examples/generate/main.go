// Command generate writes usage.ndjson. The same program writes the same bytes.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/weir-relay/weir/outbox"
)

func main() {
	out := flag.String("o", "usage.ndjson", "the file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		log.Fatal(err)
	}
}

func run(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

const (
	records   = 6000
	customers = 50
	span      = 72 * time.Hour
)

// payload is in the form that the Stripe exporter reads.
type payload struct {
	Customer  string `json:"customer"`
	Meter     string `json:"meter"`
	Value     string `json:"value"`
	Timestamp string `json:"timestamp"`
	Feature   string `json:"feature"`
}

// write writes the records in the order of their timestamps.
func write(w io.Writer) error {
	r := rand.New(rand.NewPCG(2025, 35))
	tenants := makeTenants(r)
	start := time.Date(2025, time.June, 2, 6, 0, 0, 0, time.UTC)

	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	var items []outbox.Item
	for n := range records {
		at := start.Add(span * time.Duration(n) / (records - 1)).Add(-time.Duration(r.IntN(20)) * time.Second)
		it := item(r, tenants[busy(r)], at, n)
		switch {
		case n == 1234:
			// Whose usage it is was settled only by a person's look at the contract.
			it.QuarantineReason = "attribution_unresolved"
		case n == 2345:
			it.SubjectRef = fmt.Sprintf("usage:gpu_seconds:%06d", n+1)
			it.Payload = payload{it.Payload.(payload).Customer, "gpu_seconds", "90", at.Format(time.RFC3339), "training"}
		case n%900 == 899:
			it = correction(items[n-40], at)
		}
		items = append(items, it)
		if err := e.Encode(it); err != nil {
			return err
		}
	}
	return b.Flush()
}

// item is the record number n of t, on one of its meters.
func item(r *rand.Rand, t tenant, at time.Time, n int) outbox.Item {
	m := meters[t.meters[r.IntN(len(t.meters))]]
	return outbox.Item{
		TenantKey:      t.key,
		SubjectRef:     fmt.Sprintf("usage:%s:%06d", m.name, n+1),
		Mode:           "test",
		MappingVersion: "1",
		Payload:        payload{t.customer, m.name, m.value(r), at.Format(time.RFC3339), m.features[r.IntN(len(m.features))]},
	}
}

// correction takes back what it reported: an item of its own with the negative value.
func correction(it outbox.Item, at time.Time) outbox.Item {
	p := it.Payload.(payload)
	p.Value = "-" + p.Value
	p.Timestamp = at.Format(time.RFC3339)
	it.Payload = p
	it.SubjectKind = "correction"
	it.SubjectRef += ":1"
	return it
}
