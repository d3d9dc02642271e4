package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/machine"
	"github.com/weir-relay/weir/outbox"
)

// Evidence is what the second part of a demo shows: what becomes of items after Stripe has taken them.
type Evidence struct {
	Confirmed int `json:"confirmed"` // items that Stripe's sums show
	// Drifts are the hours in which Stripe's sum differs. One is expected: the demo reports usage past weir.
	Drifts []Drift `json:"drifts"`
	// Rejected is the item that Stripe took and reported as failed later.
	Rejected string `json:"rejected_later"`
	// Cancelled is the state of the correction that cancelled an event.
	Cancelled string `json:"correction"`
	// Recovered is what Stripe's sum proved about the uncertain item.
	Recovered string `json:"recovered"`
}

// Drift is an hour in which Stripe's sum isn't weir's.
type Drift struct {
	Customer string `json:"customer"`
	Meter    string `json:"meter"`
	Weir     string `json:"weir"`
	Stripe   string `json:"stripe"`
}

// Err says what the second part did not show.
func (e *Evidence) Err() error {
	var missing []string
	for what, shown := range map[string]bool{
		"items confirmed by Stripe's sums":    e.Confirmed > 0,
		"the one hour that differs":           len(e.Drifts) == 1 && e.Drifts[0].Customer == customerDrift,
		"the item that Stripe refused later":  e.Rejected == string(machine.Rejected),
		"the cancelled event":                 e.Cancelled == string(machine.Accepted) || e.Cancelled == string(machine.Confirmed),
		"the uncertain item that has arrived": e.Recovered == "counted",
	} {
		if !shown {
			missing = append(missing, what)
		}
	}
	if missing != nil {
		return fmt.Errorf("the evidence lacks %s: please report this with the output above", strings.Join(missing, ", "))
	}
	return nil
}

// The customers of the second part. Stripe's stand-in knows those whose ids begin with cus_.
const (
	customerDrift     = "cus_DemoDrift"
	customerUncertain = "cus_DemoUncertain"
	customerGone      = "gone_DemoCustomer"
)

// evidence goes on after the last item is at rest: it stops the relay in order, starts one that gives up
// early, makes one item of each kind, and has weir look into Stripe's books.
func (d *Demo) evidence(ctx context.Context) (*Evidence, error) {
	d.stripe.ClearFaults()
	if err := d.relay.Stop(); err != nil {
		return nil, fmt.Errorf("stop the relay: %w", err)
	}
	if err := d.start(ctx, "--set", "policy.attempts=3"); err != nil {
		return nil, err
	}

	d.step("corrections, late refusals, doubts")
	_, err := d.stripe.AddFault(sandbox.Rule{
		Name:   "no answer for one customer",
		Match:  sandbox.Match{Customer: customerUncertain},
		Action: sandbox.Action{Kind: sandbox.FaultReset, When: sandbox.After},
	})
	if err != nil {
		return nil, err
	}
	// An hour that is over, so that its sum is final.
	hour := time.Now().UTC().Truncate(time.Hour).Add(-5 * time.Hour)
	meter := d.meters[0]
	usage := func(customer, value string) outbox.Item {
		return outbox.Item{
			TenantKey: customer, SubjectRef: "demo:" + customer, Mode: "test", MappingVersion: "1",
			Payload: map[string]string{"customer": customer, "meter": meter, "value": value, "timestamp": hour.Add(10 * time.Minute).Format(time.RFC3339)},
		}
	}
	items := []outbox.Item{usage(customerDrift, "10"), usage(customerUncertain, "7"), usage(customerGone, "3"), d.cancellation()}
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		_, err := outbox.Enqueue(ctx, tx, items...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	if err := d.reportPastWeir(ctx, meter, hour); err != nil {
		return nil, err
	}
	if err := d.relay.Await(ctx, func() (bool, error) { return d.atRest(ctx) }); err != nil {
		return nil, fmt.Errorf("wait for the corrections: %w", err)
	}
	if err := d.stripe.Publish(ctx); err != nil {
		return nil, fmt.Errorf("deliver Stripe's error reports: %w", err)
	}
	return d.lookIntoTheBooks(ctx, items)
}

// cancellation takes back the first record of the example that was billed.
func (d *Demo) cancellation() outbox.Item {
	first := d.producer.items[0]
	identifier := outbox.Identifier(first)
	var payload struct{ Meter string }
	json.Unmarshal(first.Payload.(json.RawMessage), &payload) //nolint:errcheck // it was relayed
	return outbox.Item{
		TenantKey: first.TenantKey, SubjectKind: "adjustment", SubjectRef: "cancel:" + identifier, Mode: "test", MappingVersion: "1",
		Payload: map[string]string{"cancel": identifier, "meter": payload.Meter},
	}
}

// reportPastWeir reports usage as somebody does who has the key and doesn't know weir.
func (d *Demo) reportPastWeir(ctx context.Context, meter string, hour time.Time) error {
	form := url.Values{
		"event_name": {meter}, "identifier": {"somebody-else-1"}, "timestamp": {fmt.Sprint(hour.Add(time.Minute).Unix())},
		"payload[stripe_customer_id]": {customerDrift}, "payload[value]": {"5"},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Stripe()+"/v1/billing/meter_events", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "Bearer "+secretKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("report usage past weir: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("report usage past weir: %s", response.Status)
	}
	return nil
}

// lookIntoTheBooks runs the commands that a person would, and gathers what they say.
func (d *Demo) lookIntoTheBooks(ctx context.Context, items []outbox.Item) (*Evidence, error) {
	d.step("weir recover --apply")
	var recovered struct {
		Items []struct{ Verdict string }
	}
	// Sums are believed only reconcile.settle_delay after the last item was taken.
	err := d.relay.Await(ctx, func() (bool, error) {
		err := d.weir(ctx, &recovered, "recover")
		return len(recovered.Items) > 0 && recovered.Items[0].Verdict != "cannot_tell", err
	})
	if err != nil {
		return nil, fmt.Errorf("wait for Stripe's sum: %w", err)
	}
	if err := d.weir(ctx, &recovered, "recover", "--apply", "--actor", "demo"); err != nil {
		return nil, err
	}
	d.step("weir reconcile --apply")
	var reconciled struct {
		Lanes []struct {
			Confirmed int `json:"items_confirmed"`
			Buckets   []struct{ Customer, Meter, Standing, Expected, Found string }
		}
	}
	if err := d.weir(ctx, &reconciled, "reconcile", "--apply", "--reads", "1000"); err != nil {
		return nil, err
	}
	e := &Evidence{Drifts: []Drift{}}
	for _, lane := range reconciled.Lanes {
		e.Confirmed += lane.Confirmed
		for _, b := range lane.Buckets {
			if b.Standing == "differs" || b.Standing == "unclear" {
				e.Drifts = append(e.Drifts, Drift{b.Customer, b.Meter, b.Expected, b.Found})
			}
		}
	}
	if len(recovered.Items) == 1 {
		e.Recovered = recovered.Items[0].Verdict
	}
	fates, err := d.fates(ctx)
	if err != nil {
		return nil, err
	}
	e.Rejected = string(fates[outbox.Identifier(items[2])].state)
	e.Cancelled = string(fates[outbox.Identifier(items[3])].state)
	return e, nil
}

// weir runs a command and reads the JSON that it prints. Findings are no failure.
func (d *Demo) weir(ctx context.Context, into any, args ...string) error {
	command := exec.CommandContext(ctx, d.options.Program, append(args, "--json", "--config", d.config)...)
	command.Env = []string{"HOME=" + d.dir}
	command.Stderr = d.options.Log
	out, err := command.Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == exitFindings) {
		return fmt.Errorf("weir %s: %w", args[0], err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("weir %s: what it printed: %w", args[0], err)
	}
	return nil
}

// exitFindings is the exit code of a command that has done its work and found something.
const exitFindings = 3
