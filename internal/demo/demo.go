package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-relay/weir/examples"
	"github.com/weir-relay/weir/exporter/stripe/sandbox"
	"github.com/weir-relay/weir/internal/daemon"
	"github.com/weir-relay/weir/internal/postgres"
	"github.com/weir-relay/weir/migrations"
)

// Options say how the demo is run.
type Options struct {
	// Program is weir's executable, which runs the relay.
	Program string
	// Log gets what the relay and the set-up say.
	Log io.Writer
	// Progress, if set, is called a few times a second.
	Progress func(Progress)
	// Rate is how many records are enqueued a second. Defaults to 500.
	Rate int
	// Deadline bounds the wait for the last record. Defaults to 2 minutes.
	Deadline time.Duration
}

// Progress is how far a demo has come.
type Progress struct {
	Step     string // what is happening, in a few words
	Total    int    // records of the example
	Enqueued int
	Billed   int // as Stripe's stand-in counts
}

// The stand-in's secrets open nothing else.
const (
	secretKey     = "sk_test_weir"
	webhookSecret = "whsec_demo"
)

// Demo is a demo that has been set up.
type Demo struct {
	options  Options
	dir      string
	cluster  *postgres.Cluster
	pool     *pgxpool.Pool
	stripe   *sandbox.Sandbox
	server   *http.Server
	address  string // of the stand-in
	listen   string // of the relay
	webhooks string // of the relay, for Stripe's error reports
	meters   []string
	config   string // the relay's configuration file
	relay    *daemon.Relay
	producer producer
}

// Start sets everything up but the relay.
func Start(ctx context.Context, o Options) (_ *Demo, err error) {
	if o.Rate == 0 {
		o.Rate = 500
	}
	if o.Deadline == 0 {
		o.Deadline = 2 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	d := &Demo{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	d.step("starting Postgres")
	if d.dir, err = os.MkdirTemp("", "weir-demo-"); err != nil {
		return nil, err
	}
	// The commit times are what the latency is measured from.
	d.cluster, err = postgres.Start(ctx, postgres.Options{Settings: map[string]string{"track_commit_timestamp": "on"}})
	if err != nil {
		return nil, err
	}
	if err := migrations.Up(ctx, d.URL()); err != nil {
		return nil, err
	}
	if d.pool, err = pgxpool.New(ctx, d.URL()); err != nil {
		return nil, err
	}
	if d.webhooks, err = daemon.FreeAddress(); err != nil {
		return nil, err
	}
	if err := d.serveStripe(); err != nil {
		return nil, err
	}
	if d.listen, err = daemon.FreeAddress(); err != nil {
		return nil, err
	}
	d.config = filepath.Join(d.dir, "weir.yaml")
	if err := os.WriteFile(d.config, []byte(d.yaml()), 0o600); err != nil {
		return nil, err
	}
	records, err := examples.Usage(time.Now())
	if err != nil {
		return nil, err
	}
	return d, d.producer.read(records)
}

// yaml is the relay's configuration: short times, so that what the kill leaves behind is soon free again.
func (d *Demo) yaml() string {
	return fmt.Sprintf(`# A lane to the stand-in, with short times so that the demo is.
database:
  url: %s
policy:
  lease: 4s
  backoff_base: 200ms
  backoff_cap: 5s
reconcile:
  settle_delay: 1s
http:
  listen: %s
  webhooks: %s
lanes:
  stripe:
    type: stripe
    stripe:
      key: %s
      webhook_secret: %s
      url: http://%s
      rate: -1
      timeout: 2s
`, d.URL(), d.listen, d.webhooks, secretKey, webhookSecret, d.address)
}

// serveStripe starts the stand-in, which loses an answer in a hundred and fails as many requests.
func (d *Demo) serveStripe() error {
	var meters []sandbox.Meter
	d.meters = examples.Meters()
	for _, name := range d.meters {
		meters = append(meters, sandbox.Meter{EventName: name})
	}
	d.stripe = sandbox.New(sandbox.Config{
		Keys:     []sandbox.Key{{Secret: secretKey}},
		Meters:   meters,
		Webhooks: []sandbox.Webhook{{URL: "http://" + d.webhooks + "/webhooks/stripe/stripe", Secret: webhookSecret}},
		Faults: []sandbox.Rule{
			{Name: lostAnswers, Match: sandbox.Match{Probability: 0.01}, Action: sandbox.Action{Kind: sandbox.FaultReset, When: sandbox.After}},
			{Name: failures, Match: sandbox.Match{Probability: 0.01}, Action: sandbox.Action{Kind: sandbox.FaultStatus, Status: http.StatusServiceUnavailable}},
		},
	})
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve the Stripe stand-in: %w", err)
	}
	d.address = socket.Addr().String()
	d.server = &http.Server{Handler: d.stripe.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go d.server.Serve(socket) //nolint:errcheck // it ends with Close
	return nil
}

// The faults of the stand-in, by name.
const (
	lostAnswers = "answer lost after the event was taken"
	failures    = "request failed with 503"
)

// URL is the private cluster's connection string.
func (d *Demo) URL() string { return d.cluster.URL("postgres") }

// Stripe is the base URL of the stand-in.
func (d *Demo) Stripe() string { return "http://" + d.address }

// Listen is the base URL of the relay's metrics and status.
func (d *Demo) Listen() string { return "http://" + d.listen }

// Config is the relay's configuration file.
func (d *Demo) Config() string { return d.config }

// Close stops whatever runs and removes what was made.
func (d *Demo) Close() error {
	var errs []error
	if d.relay != nil {
		errs = append(errs, d.relay.Stop())
	}
	if d.server != nil {
		d.stripe.Close()
		errs = append(errs, d.server.Close())
	}
	if d.pool != nil {
		d.pool.Close()
	}
	if d.cluster != nil {
		errs = append(errs, d.cluster.Stop())
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

func (d *Demo) step(what string) {
	p := Progress{Step: what, Total: len(d.producer.items), Enqueued: int(d.producer.enqueued.Load())}
	if d.stripe != nil {
		p.Billed = d.stripe.Totals().Billed
	}
	d.options.Progress(p)
}
