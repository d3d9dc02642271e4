package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// The directions of a link, as toxiproxy calls them.
const (
	toServer = "upstream"
	toRelay  = "downstream"
)

// link is a proxy between one relay and Postgres.
type link struct {
	proxy *toxiproxy.Proxy
}

func newLink(name, server string) (*link, error) {
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &link{toxiproxy.NewProxy(api, name, "127.0.0.1:0", server)}
	return l, l.proxy.Start()
}

// address is where the relay connects to.
func (l *link) address() string { return l.proxy.Listen }

// toxic puts a fault on one direction. The function it answers takes it off.
func (l *link) toxic(kind, direction string, attributes map[string]int) (off func(), err error) {
	name := kind + " " + direction
	text, err := json.Marshal(map[string]any{"name": name, "type": kind, "stream": direction, "toxicity": 1, "attributes": attributes})
	if err != nil {
		return nil, err
	}
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
		return nil, fmt.Errorf("toxic %s: %w", name, err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = l.proxy.Toxics.RemoveToxic(ctx, name) // it may be off already
	}, nil
}

// hold keeps back what goes in one direction. Off, it goes on.
func (l *link) hold(direction string) (off func(), err error) {
	return l.toxic("latency", direction, map[string]int{"latency": int(time.Hour.Milliseconds())})
}

// delay makes one direction slow.
func (l *link) delay(direction string, latency, jitter time.Duration) (off func(), err error) {
	return l.toxic("latency", direction, map[string]int{"latency": int(latency.Milliseconds()), "jitter": int(jitter.Milliseconds())})
}

// swallow loses what goes in one direction, and keeps the connection open.
func (l *link) swallow(direction string) (off func(), err error) {
	return l.toxic("timeout", direction, map[string]int{"timeout": 0})
}

// cutAfter ends connections after so many bytes of one direction, in the middle of a message.
func (l *link) cutAfter(direction string, bytes int) (off func(), err error) {
	return l.toxic("limit_data", direction, map[string]int{"bytes": bytes})
}

// cut ends all connections and refuses new ones until mend.
func (l *link) cut() { l.proxy.Stop() }

// mend takes connections again, without faults.
func (l *link) mend(ctx context.Context) error {
	l.proxy.Toxics.ResetToxics(ctx)
	var err error
	for range 40 {
		if err = l.proxy.Start(); err == nil || err == toxiproxy.ErrProxyAlreadyStarted {
			return nil
		}
		// Somebody else may have the port for a moment.
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("mend the link %s: %w", l.proxy.Name, err)
}
