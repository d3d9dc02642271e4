package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Warnings says what is allowed and probably not meant.
func (c *Config) Warnings() []string {
	var out []string
	warn := func(path, format string, args ...any) {
		out = append(out, path+": "+fmt.Sprintf(format, args...))
	}
	if pooled := poolerSign(c.Database.ReplicationURL); c.Replication.Enabled && pooled != "" {
		warn("database.replication_url", "%s looks like a pooler, which doesn't pass replication on: give the server's own address", pooled)
	}
	if c.Replication.Fuse == 0 {
		warn("replication.fuse", "is off: while nothing reads the slot, the server keeps all of its log, until its disk is full unless max_slot_wal_keep_size is set")
	}
	if host, _, err := net.SplitHostPort(c.HTTP.Listen); err == nil && !isLoopback(host) {
		warn("http.listen", "%s can be reached from other machines, without a password: let only a network that you trust reach it", c.HTTP.Listen)
	}
	if c.HTTP.Webhooks != "" && !c.takesWebhooks() {
		warn("http.webhooks", "takes nothing: no lane has a stripe.webhook_secret")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Lanes)) {
		c.warnLane(name, c.Lanes[name], warn)
	}
	if need := len(c.Lanes) + 2; c.Database.PoolSize < need {
		warn("database.pool_size", "%d is few for %d lane(s): they wait for each other below %d", c.Database.PoolSize, len(c.Lanes), need)
	}
	return out
}

func (c *Config) warnLane(name string, l *Lane, warn func(path, format string, args ...any)) {
	at := "lanes." + name
	if l.Type == "null" {
		warn(at+".type", "null accepts items without sending them: they are never billed")
		for _, f := range c.fields() {
			if strings.HasPrefix(f.path, at+".stripe.") && c.origins[f.path].Kind != "" {
				warn(f.path, "has no effect, since %s.type is null", at)
			}
		}
		return
	}
	s := &l.Stripe
	if c.Relay.ShutdownGrace < s.Timeout {
		warn("relay.shutdown_grace", "%v is shorter than %s.stripe.timeout (%v): a shutdown may cut a send off, whose item then waits for its lease to end",
			formatDuration(c.Relay.ShutdownGrace), at, formatDuration(s.Timeout))
	}
	if secret := s.WebhookSecret != "" || s.WebhookSecretFile != ""; secret && c.HTTP.Webhooks == "" {
		warn(at+".stripe.webhook_secret", "has no effect, since http.webhooks is off")
	}
	limit := 25.0
	switch {
	case s.Key.Live() && s.Stream:
		limit = 10000
	case s.Key.Live():
		limit = 1000
	}
	if s.Stream && s.Key != "" && !s.Key.Live() && s.URL == "" && s.StreamAddress == "" {
		warn(at+".stripe.stream", "with a test key: Stripe's documentation says that the stream works in live mode only")
	}
	if s.Key != "" && s.URL == "" && s.Rate > limit {
		warn(at+".stripe.rate", "%v is above what Stripe allows this key (%v calls a second): it would refuse some", s.Rate, limit)
	}
	if s.Key != "" && c.origins[at+".stripe.key"].Kind == "file" {
		warn(at+".stripe.key", "is kept in the configuration file: the environment or key_file keep it out of backups and reviews")
	}
	if s.WebhookSecret != "" && c.origins[at+".stripe.webhook_secret"].Kind == "file" {
		warn(at+".stripe.webhook_secret", "is kept in the configuration file: the environment or webhook_secret_file keep it out of backups and reviews")
	}
	if u, err := url.Parse(s.URL); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		warn(at+".stripe.url", "%s sends the key in clear text", s.URL)
	}
}

// takesWebhooks reports whether a lane has a secret to check webhooks against.
func (c *Config) takesWebhooks() bool {
	for _, l := range c.Lanes {
		if l.Type == "stripe" && (l.Stripe.WebhookSecret != "" || l.Stripe.WebhookSecretFile != "") {
			return true
		}
	}
	return false
}

// poolerSign is what in the address looks like a connection pooler, "" where nothing does (lesson 20).
func poolerSign(dsn DSN) string {
	pg, err := pgx.ParseConfig(dsn.Reveal())
	if dsn == "" || err != nil {
		return ""
	}
	if pg.Port == 6432 {
		return "port 6432"
	}
	for _, sign := range []string{"pooler", "pgbouncer", "pgcat", "odyssey"} {
		if strings.Contains(pg.Host, sign) {
			return pg.Host
		}
	}
	return ""
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
