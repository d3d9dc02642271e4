package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weir-relay/weir/internal/daemon"
)

// relay says how `weir run` is set up.
type relay struct {
	lane   string // settings of the lane, as YAML below its name
	noSlot bool   // without the stream
}

// slot is the bench's own: a database's relay may have one, too.
const slot = "weir_bench"

// secretKey is the stand-in's; it opens nothing else.
const secretKey = "sk_test_weir"

// nullLane accepts everything.
func nullLane() string { return "type: 'null'" }

// stripeLane sends to the stand-in at address, without a limit of its own.
func stripeLane(address string, calls int) string {
	return fmt.Sprintf(`type: stripe
stripe:
  key: %s
  url: http://%s
  rate: -1
  calls: %d
  timeout: 10s`, secretKey, address, calls)
}

// start runs a relay and returns when it streams, or at once where it has no slot.
func (r *rig) start(ctx context.Context, c relay) (*daemon.Relay, error) {
	relay, err := r.launch(c)
	if err != nil || c.noSlot {
		return relay, err
	}
	if err := relay.AwaitStreaming(ctx); err != nil {
		return nil, fmt.Errorf("start the relay: %w", errors.Join(err, relay.Kill()))
	}
	return relay, nil
}

// launch runs a relay.
func (r *rig) launch(c relay) (*daemon.Relay, error) {
	listen, err := daemon.FreeAddress()
	if err != nil {
		return nil, err
	}
	config := r.path("weir.yaml")
	text := fmt.Sprintf(`database:
  url: %s
replication:
  enabled: %t
  slot: %s
http:
  listen: %s
lanes:
  %s:
    %s
`, r.url, !c.noSlot, slot, listen, weirLane, strings.ReplaceAll(c.lane, "\n", "\n    "))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return daemon.Start(daemon.Options{
		Program: r.options.Program, Config: config, Home: r.dir, Listen: listen, Log: r.options.Log,
	})
}

// dropSlot removes what a relay has left on the server.
func (r *rig) dropSlot(ctx context.Context) error {
	_, err := r.pool.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1`, slot)
	if err != nil {
		return fmt.Errorf("drop slot %s: %w", slot, err)
	}
	return nil
}
