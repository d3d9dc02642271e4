package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// promised is how long Stripe knows an identifier at least.
const promised = 24 * time.Hour

// validator gathers problems. Each names the setting to change and where it was set.
type validator struct {
	c    *Config
	errs []error
}

// check reports format as the problem of path, unless ok.
func (v *validator) check(ok bool, path, format string, args ...any) {
	if !ok {
		v.errs = append(v.errs, &Error{v.c.origins[path], path, fmt.Sprintf(format, args...)})
	}
}

// validate checks the settings, alone and in pairs.
func (c *Config) validate() []error {
	v := &validator{c: c}
	v.positive()
	if len(v.errs) > 0 {
		return v.errs
	}
	v.database()
	v.replication()
	v.policy()
	for _, name := range slices.Sorted(maps.Keys(c.Lanes)) {
		v.lane(name, c.Lanes[name])
	}
	v.http()
	return v.errs
}

func (v *validator) http() {
	h := &v.c.HTTP
	if h.Listen != "" {
		_, _, err := net.SplitHostPort(h.Listen)
		v.check(err == nil, "http.listen", "%q is no address: write host:port, such as 127.0.0.1:9464, or off", h.Listen)
	}
	if h.Webhooks != "" {
		_, _, err := net.SplitHostPort(h.Webhooks)
		v.check(err == nil, "http.webhooks", "%q is no address: write host:port, such as 0.0.0.0:9465, or off", h.Webhooks)
		v.check(h.Webhooks != h.Listen, "http.webhooks", "%q is also http.listen: the one is for the internet, the other must not be", h.Webhooks)
	}
}

// positive refuses zero and less where they have no meaning.
func (v *validator) positive() {
	for _, f := range v.c.fields() {
		switch n := f.value.Interface().(type) {
		case time.Duration:
			v.check(n > 0, f.path, "%v: need more than 0", formatDuration(n))
		case int:
			v.check(n > 0 || n == 0 && f.def == "0", f.path, "%d: need at least 1", n)
		case float64:
			v.check(n >= 0 || n == -1, f.path, "%v: need 0 or more, or -1 for no limit", n)
		}
	}
}

func (v *validator) database() {
	d := &v.c.Database
	v.connection("database.url", d.URL)
	if d.ReplicationURL != d.URL {
		v.connection("database.replication_url", d.ReplicationURL)
	}
}

func (v *validator) connection(path string, dsn DSN) {
	if dsn == "" {
		return
	}
	// The parser's own message may quote the password.
	_, err := pgx.ParseConfig(dsn.Reveal())
	v.check(err == nil, path, "%v is no connection string: write postgres://user:password@host:port/database, with reserved characters of the password escaped as %%XX", dsn)
}

// Names that need no quoting in replication commands.
var (
	slotName        = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)
	publicationName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
)

func (v *validator) replication() {
	r := &v.c.Replication
	v.check(slotName.MatchString(r.Slot), "replication.slot", "%q is no name of a slot: use a to z, 0 to 9 and _, at most 63", r.Slot)
	v.check(publicationName.MatchString(r.Publication), "replication.publication", "%q is no name of a publication: use a to z, 0 to 9 and _, not beginning with a digit, at most 63", r.Publication)
	v.check(r.StatusInterval <= r.WALSenderTimeout/2, "replication.status_interval",
		"%v is more than half of replication.wal_sender_timeout (%v): one late confirmation would lose the stream; lower the one or raise the other",
		formatDuration(r.StatusInterval), formatDuration(r.WALSenderTimeout))
	v.check(r.Fuse == 0 || r.Fuse >= 64<<20, "replication.fuse", "%v is less than the server may keep at any time: use 64MiB or more, or 0 for none", r.Fuse)
}

func (v *validator) policy() {
	p := &v.c.Policy
	v.check(p.BackoffCap >= p.BackoffBase, "policy.backoff_cap", "%v is below policy.backoff_base (%v): raise it",
		formatDuration(p.BackoffCap), formatDuration(p.BackoffBase))
	v.check(p.BackoffCap+p.BackoffCap/4 < p.Horizon, "policy.backoff_cap", "%v, and a quarter more by jitter, reaches policy.horizon (%v): lower it",
		formatDuration(p.BackoffCap), formatDuration(p.Horizon))
	v.check(p.Lease < p.Horizon, "policy.lease", "%v reaches policy.horizon (%v): shorten it", formatDuration(p.Lease), formatDuration(p.Horizon))
}

func (v *validator) lane(name string, l *Lane) {
	at := "lanes." + name
	if l.Type != "stripe" {
		return
	}
	p, s := &v.c.Policy, &l.Stripe
	v.check(p.Horizon+p.Lease < promised, "policy.horizon",
		"%v and policy.lease (%v) together reach the 24 hours for which Stripe promises to know an identifier: a late resend could be billed twice; shorten one",
		formatDuration(p.Horizon), formatDuration(p.Lease))
	v.check(p.Lease >= 2*s.Timeout, "policy.lease",
		"%v is less than twice %s.stripe.timeout (%v): an item could be free for the next relay while it is being sent; raise it, or lower the timeout",
		formatDuration(p.Lease), at, formatDuration(s.Timeout))
	v.check(s.Key == "" || s.KeyFile == "", at+".stripe.key_file", "is set besides %s.stripe.key: keep one of them", at)
	if s.Key != "" {
		v.check(checkKey(s.Key) == nil, at+".stripe.key", "%v", checkKey(s.Key))
	}
	v.check(s.WebhookSecret == "" || s.WebhookSecretFile == "", at+".stripe.webhook_secret_file", "is set besides %s.stripe.webhook_secret: keep one of them", at)
	if s.WebhookSecret != "" {
		v.check(checkWebhookSecret(s.WebhookSecret) == nil, at+".stripe.webhook_secret", "%v", checkWebhookSecret(s.WebhookSecret))
	}
	v.check(!s.PollErrorReports || v.c.Reconcile.Enabled, at+".stripe.poll_error_reports", "needs reconcile.enabled: the reports are asked for in its passes")
	v.check(s.Account == "" || strings.HasPrefix(s.Account, "acct_"), at+".stripe.account", "%q is no account: write acct_…, or leave it empty for the key's own", s.Account)
	v.check(s.Account != "" || !s.Connect, at+".stripe.connect", "needs %s.stripe.account: name the connected account, acct_…", at)
	v.address(at+".stripe.url", s.URL, s.Key)
	v.address(at+".stripe.stream_address", s.StreamAddress, s.Key)
	v.mapping(at+".stripe", s)
}

func (v *validator) address(path, address string, key Secret) {
	if address == "" {
		return
	}
	u, err := url.Parse(address)
	v.check(err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http"), path, "%q is no address: write https://host", address)
	v.check(err != nil || u.Scheme != "http" || isLoopback(u.Hostname()) || !key.Live(), path,
		"%q would send a live key in clear text: use https", address)
}

// mapping checks what can be said of the features without the exporter, at the place where it was written.
func (v *validator) mapping(at string, s *Stripe) {
	m := &s.Mapping
	v.check(m.Version != "" || len(m.Features) == 0, at+".mapping.version", "is missing: items that name a feature are checked against it")
	for _, name := range slices.Sorted(maps.Keys(m.Features)) {
		f, path := m.Features[name], at+".mapping.features."+name
		v.check(f.Meter != "", path+".meter", "is missing: name the meter's event_name")
		v.check(f.Account == "" || strings.HasPrefix(f.Account, "acct_"), path+".account", "%q is no account: write acct_…, or leave it empty", f.Account)
		if known := s.Meters[f.Meter]; known != nil {
			v.check(f.CustomerKey == "" || f.CustomerKey == known.CustomerKey, path+".customer_key",
				"%q is not what meters.%s has (%q): a meter has one", f.CustomerKey, f.Meter, known.CustomerKey)
			v.check(f.ValueKey == "" || f.ValueKey == known.ValueKey, path+".value_key",
				"%q is not what meters.%s has (%q): a meter has one", f.ValueKey, f.Meter, known.ValueKey)
		}
	}
}
