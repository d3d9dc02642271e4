package bench

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/weir-relay/weir/exporter/stripe/sandbox"
)

// provider is a stand-in for Stripe on a loopback address.
type provider struct {
	*sandbox.Sandbox
	address string
	cancel  context.CancelFunc
	served  sync.WaitGroup
}

// serve starts a stand-in that takes latency for each answer.
func serve(latency time.Duration) (*provider, error) {
	config := sandbox.Config{Keys: []sandbox.Key{{Secret: secretKey}}, Meters: []sandbox.Meter{{EventName: "requests"}}}
	if latency > 0 {
		config.Faults = []sandbox.Rule{{Name: "latency", Action: sandbox.Action{Kind: sandbox.FaultDelay, Delay: latency}}}
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the Stripe stand-in: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &provider{Sandbox: sandbox.New(config), address: socket.Addr().String(), cancel: cancel}
	p.served.Go(func() { p.Serve(ctx, socket) }) //nolint:errcheck // it ends with close
	return p, nil
}

func (p *provider) close() {
	p.cancel()
	p.served.Wait()
}
