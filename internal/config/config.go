package config

import (
	"time"

	"github.com/weir-relay/weir/machine"
)

// Config is everything that can be set.
type Config struct {
	Database    Database         `yaml:"database"`
	Replication Replication      `yaml:"replication"`
	Policy      Policy           `yaml:"policy"`
	Relay       Relay            `yaml:"relay"`
	Lanes       map[string]*Lane `yaml:"lanes"`
	Reconcile   Reconcile        `yaml:"reconcile"`
	HTTP        HTTP             `yaml:"http"`
	Log         Log              `yaml:"log"`

	origins map[string]Origin // of the paths that aren't at their default
	file    string            // the file that was read, "" where there was none
}

// Database is where the outbox is.
type Database struct {
	// The database's connection string, postgres://user:password@host:port/name. A pooler may stand in between.
	// Needed by every command that looks at items.
	URL DSN `yaml:"url"`
	// The same database for the replication stream. It must be a direct connection: poolers don't pass replication
	// on. Defaults to database.url.
	ReplicationURL DSN `yaml:"replication_url"`
	// Connections that the relay holds at most, besides the one of the stream.
	PoolSize int `yaml:"pool_size" default:"8"`
}

// Replication is how the relay hears of new items.
type Replication struct {
	// Whether to read the write-ahead log. false: the relay sweeps the table every relay.poll_interval.
	Enabled bool `yaml:"enabled" default:"true"`
	// The name of the replication slot. Relays that share it stand by for each other. Keep it fixed: a slot whose
	// name is forgotten makes the server keep its log for ever.
	Slot string `yaml:"slot" default:"weir"`
	// The name of the publication, as the migrations create it.
	Publication string `yaml:"publication" default:"weir"`
	// How often the position is confirmed to the server. At most half of replication.wal_sender_timeout.
	StatusInterval time.Duration `yaml:"status_interval" default:"10s"`
	// After how long without a word the server drops the stream, and lets another relay have the slot.
	WALSenderTimeout time.Duration `yaml:"wal_sender_timeout" default:"20s"`
	// How much log the slot may make the server keep. Past it the relay gives its slot up, sweeps, and makes a new
	// one: nothing is lost but time. 0: no limit.
	Fuse Size `yaml:"fuse" default:"8GiB"`
}

// Policy is how often and how long an item is tried.
type Policy struct {
	// How long a claim holds an item. At least twice as long as the slowest send.
	Lease time.Duration `yaml:"lease" default:"2m"`
	// The delay after the first failed attempt. It doubles with each one.
	BackoffBase time.Duration `yaml:"backoff_base" default:"5s"`
	// The longest delay between attempts, before jitter.
	BackoffCap time.Duration `yaml:"backoff_cap" default:"15m"`
	// How many attempts count before the item is uncertain.
	Attempts int `yaml:"attempts" default:"20"`
	// How long after its first attempt an item may be sent again. Together with the lease it must stay below the 24
	// hours for which Stripe promises to know an identifier: a later resend might be billed twice.
	Horizon time.Duration `yaml:"horizon" default:"23h"`
}

// Machine is p as package machine takes it.
func (p Policy) Machine() machine.Policy {
	return machine.Policy{Lease: p.Lease, Base: p.BackoffBase, Cap: p.BackoffCap, Attempts: p.Attempts, Horizon: p.Horizon}
}

// Relay is the process.
type Relay struct {
	// What the relay calls itself in lease_owner. Empty: host name and process id.
	Owner string `yaml:"owner"`
	// How often the table is swept while there is no stream.
	PollInterval time.Duration `yaml:"poll_interval" default:"1s"`
	// How often the table is swept while there is one, to be safe.
	SweepInterval time.Duration `yaml:"sweep_interval" default:"10m"`
	// How long a shutdown waits for what is being sent. Keep it below the patience of what runs weir.
	ShutdownGrace time.Duration `yaml:"shutdown_grace" default:"30s"`
}

// Lane sends the items of one exporter. Its name is what the producer writes into the column exporter.
type Lane struct {
	// What sends: stripe, or null, which accepts everything and sends nothing.
	Type string `yaml:"type" default:"stripe" oneof:"stripe null"`
	// Which items wait for which: best_effort for none, per_key for earlier ones with the same source and order_key,
	// per_source for earlier ones of the same source, stop_the_line as per_key but halting at the first item that
	// isn't accepted.
	Order machine.Order `yaml:"order" default:"best_effort" oneof:"best_effort per_key per_source stop_the_line"`
	// Settings of a lane of type stripe.
	Stripe Stripe `yaml:"stripe"`
}

// Stripe is an account to which usage is reported.
type Stripe struct {
	// The secret or restricted key: sk_live_, sk_test_, rk_live_ or rk_test_. It decides the mode of the items that
	// the lane sends. Better kept in the environment (WEIR_STRIPE_KEY for the lane stripe) or in key_file.
	Key Secret `yaml:"key"`
	// A file that holds the key, for secrets that are mounted. Instead of key.
	KeyFile string `yaml:"key_file"`
	// The account that items may name as their destination, acct_…. Empty: items name none, which means the key's own.
	Account string `yaml:"account"`
	// Whether account is connected to the key's, which is a platform's. It is then sent as Stripe-Account.
	Connect bool `yaml:"connect" default:"false"`
	// Another address of the API, for a proxy or weir sandbox. Empty: Stripe's.
	URL string `yaml:"url"`
	// Whether to send by the meter event stream, in batches of up to 100: for more than a thousand events a second.
	// Stripe then answers before it validates, so that accepted means received.
	Stream bool `yaml:"stream" default:"false"`
	// Another address of the stream. Empty: url, where that is set, else Stripe's.
	StreamAddress string `yaml:"stream_address"`
	// Calls in flight at most. 0: 64, or 8 with stream.
	Calls int `yaml:"calls" default:"0"`
	// Calls a second at most. 0: a little below what Stripe allows the key, 1000 in live mode and 25 in test mode, or
	// with stream 100 in live mode, which full batches make 10000 events. -1: no limit.
	Rate float64 `yaml:"rate" default:"0"`
	// How long one call may take.
	Timeout time.Duration `yaml:"timeout" default:"30s"`
	// How long the lane waits when Stripe asks for fewer calls and doesn't say for how long.
	RateLimitDelay time.Duration `yaml:"rate_limit_delay" default:"30s"`
	// Whether the relay refuses to start when Stripe says that key, account or a configured meter isn't right. false:
	// it starts, says so, and quarantines the items of unsafe meters. Stripe out of reach never keeps it from starting.
	Strict bool `yaml:"strict" default:"false"`
	// The signing secret of the event destination that sends thin events to http.webhooks, whsec_…. Its path there is
	// /webhooks/stripe/<lane>. Empty: none is taken.
	WebhookSecret Secret `yaml:"webhook_secret"`
	// A file that holds the secret. Instead of webhook_secret.
	WebhookSecretFile string `yaml:"webhook_secret_file"`
	// Whether to ask Stripe for error reports, where its webhooks can't reach weir: one question an hour for each meter,
	// out of reconcile.reads_per_hour. Needs reconcile.enabled.
	PollErrorReports bool `yaml:"poll_error_reports" default:"false"`
	// Meters whose payload keys aren't Stripe's defaults, by event name.
	Meters map[string]*Meter `yaml:"meters"`
	// Which meter the usage of a feature goes to, for payloads that name a feature and no meter.
	Mapping Mapping `yaml:"mapping"`
}

// Meter says under which keys a meter expects customer and value.
type Meter struct {
	// The meter's customer_mapping.event_payload_key.
	CustomerKey string `yaml:"customer_key" default:"stripe_customer_id"`
	// The meter's value_settings.event_payload_key.
	ValueKey string `yaml:"value_key" default:"value"`
}

// Mapping turns features into meters, when an item is claimed.
type Mapping struct {
	// What these rules are called. Items that name a feature must have been staged under it, in the column
	// mapping_version; the others are quarantined as mapping_changed. Needed with features.
	Version string `yaml:"version"`
	// Earlier versions whose items these rules may send too.
	Accepts Words `yaml:"accepts"`
	// The rules, by feature.
	Features map[string]*Feature `yaml:"features"`
}

// Feature says how the usage of a feature is reported.
type Feature struct {
	// The event name of its meter. Needed.
	Meter string `yaml:"meter"`
	// The meter's customer_mapping.event_payload_key. Empty: what meters says of it, else Stripe's default.
	CustomerKey string `yaml:"customer_key"`
	// The meter's value_settings.event_payload_key. Empty: what meters says of it, else Stripe's default.
	ValueKey string `yaml:"value_key"`
	// Which values it has: integer or decimal. Items with others are quarantined.
	Format string `yaml:"format" default:"integer" oneof:"integer decimal"`
	// The further payload keys that its items may have. Items with others are quarantined.
	Dimensions Words `yaml:"dimensions"`
	// The account that its items must name, acct_…. Empty: none is demanded.
	Account string `yaml:"account"`
	// The only mode in which it is reported: live or test. Empty: both.
	Mode string `yaml:"mode" oneof:"live test"`
	// The cutover, as in 2026-01-01T00:00:00Z. Usage of a period that began before it belongs to the former reporter,
	// and is quarantined. Empty: none.
	Since time.Time `yaml:"since"`
	// Whether somebody else reports it still. Its items are quarantined.
	Buffered bool `yaml:"buffered" default:"false"`
}

// Reconcile is how accepted items are confirmed by Stripe's own sums.
type Reconcile struct {
	// Whether to reconcile. It asks Stripe for summaries, which the key must be allowed to read.
	Enabled bool `yaml:"enabled" default:"false"`
	// How long after the end of an hour, and after the acceptance of its last item, Stripe's sum of it is believed: it
	// follows the events with a delay that Stripe doesn't name.
	SettleDelay time.Duration `yaml:"settle_delay" default:"15m"`
	// How often accepted items are looked through. Relays on one database take turns.
	Interval time.Duration `yaml:"interval" default:"15m"`
	// Questions to Stripe an hour at most, for each lane. One covers 100 hours of a customer on a meter. Stripe allows at
	// least 10000 reads a month, and 500 for each of the account's transactions.
	ReadsPerHour int `yaml:"reads_per_hour" default:"12"`
}

// HTTP is where the relay answers.
type HTTP struct {
	// The address of metrics, health and status. Whoever reaches it sees counts and lanes, and may start an audit: keep
	// it to this machine or a network that you trust. off: none.
	Listen string `yaml:"listen" default:"127.0.0.1:9464"`
	// The address on which Stripe's webhooks are taken, which must be reachable from the internet, through something that
	// speaks HTTPS. Nothing else answers there. off: none.
	Webhooks string `yaml:"webhooks" default:"off"`
}

// Log is what the relay says, on standard error.
type Log struct {
	// The least level that is written.
	Level string `yaml:"level" default:"info" oneof:"debug info warn error"`
	// How it is written.
	Format string `yaml:"format" default:"text" oneof:"text json"`
}
