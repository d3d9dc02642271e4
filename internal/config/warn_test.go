package config

import (
	"strings"
	"testing"
)

func TestWarnings(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want string
	}{
		"pooler port":     {"database: {url: 'postgres://u@h:6432/d'}", "database.replication_url: port 6432"}, // lesson 20
		"pooler host":     {"database: {url: 'postgres://u@ep-x-pooler.example/d'}", "database.replication_url: ep-x-pooler.example"},
		"no fuse":         {"replication: {fuse: 0}", "replication.fuse: is off"},
		"open to all":     {"http: {listen: ':9464'}", "http.listen: :9464 can be reached"},
		"null":            {"lanes: {a: {type: null}}", "lanes.a.type: null accepts"},
		"without effect":  {"lanes: {a: {type: null, stripe: {calls: 3}}}", "lanes.a.stripe.calls: has no effect"},
		"short grace":     {"relay: {shutdown_grace: 5s}", "relay.shutdown_grace: 5s is shorter"},
		"rate":            {"lanes: {stripe: {stripe: {key: sk_test_aaaaaaaaaaaa, rate: 30}}}", "lanes.stripe.stripe.rate: 30"},
		"stream, test":    {"lanes: {stripe: {stripe: {key: sk_test_aaaaaaaaaaaa, stream: true}}}", "lanes.stripe.stripe.stream: with a test key"},
		"stream's rate":   {"lanes: {stripe: {stripe: {key: sk_live_aaaaaaaaaaaa, stream: true, rate: 10001}}}", "above what Stripe allows this key (10000"},
		"key in file":     {"lanes: {stripe: {stripe: {key: sk_test_aaaaaaaaaaaa}}}", "lanes.stripe.stripe.key: is kept in"},
		"few connections": {"database: {pool_size: 2}", "database.pool_size: 2 is few"},
		"no taker":        {"http: {webhooks: ':9465'}", "http.webhooks: takes nothing"},
		"no address":      {"lanes: {a: {stripe: {webhook_secret: whsec_aaaaaaaaaaaa}}}", "lanes.a.stripe.webhook_secret: has no effect"},
		"secret in file":  {"lanes: {a: {stripe: {webhook_secret: whsec_aaaaaaaaaaaa}}}", "lanes.a.stripe.webhook_secret: is kept in"},
		"clear text":      {"lanes: {stripe: {stripe: {url: 'http://proxy.example'}}}", "lanes.stripe.stripe.url"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.Warnings(), "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("got %s\nwant %q in it", got, tt.want)
			}
		})
	}
	c, err := load(t, "database: {url: 'postgres://u@h/d'}")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Warnings(); len(got) > 0 {
		t.Errorf("without cause: %v", got)
	}
}
