package sandbox_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/stripe/stripe-go/v82"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
)

// A client that loses an answer sends again. The ledger says what the customer pays.
func Example() {
	s := sandbox.New(sandbox.Config{
		Meters: []sandbox.Meter{{EventName: "tokens"}},
		Faults: []sandbox.Rule{{
			Match:  sandbox.Match{Identifier: "order-1", First: 1},
			Action: sandbox.Action{Kind: sandbox.FaultReset, When: sandbox.After},
		}},
	})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	client := stripe.NewClient("sk_test_weir", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(server.URL), MaxNetworkRetries: stripe.Int64(0), LeveledLogger: &stripe.LeveledLogger{},
	})))
	send := func() error {
		_, err := client.V1BillingMeterEvents.Create(context.Background(), &stripe.BillingMeterEventCreateParams{
			EventName:  stripe.String("tokens"),
			Identifier: stripe.String("order-1"),
			Payload:    map[string]string{"stripe_customer_id": "cus_1", "value": "3"},
		})
		return err
	}

	fmt.Println("connection lost:", send() != nil)
	fmt.Println("refused as a duplicate:", send() != nil)
	s.Advance(25 * time.Hour) // past the time for which Stripe remembers identifiers
	fmt.Println("taken again:", send() == nil)
	entry, _ := s.Entry("order-1")
	fmt.Println("received:", entry.Received, "billed:", entry.Billed)
	// Output:
	// connection lost: true
	// refused as a duplicate: true
	// taken again: true
	// received: 3 billed: 2
}
