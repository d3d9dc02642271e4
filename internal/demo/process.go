package demo

import (
	"context"

	"github.com/weir-relay/weir/internal/daemon"
)

// start runs the relay, with more arguments, and returns when it streams.
func (d *Demo) start(ctx context.Context, args ...string) (err error) {
	d.relay, err = daemon.Start(daemon.Options{
		Program: d.options.Program,
		Config:  d.config,
		Home:    d.dir,
		Listen:  d.listen,
		Log:     d.options.Log,
		Args:    args,
	})
	if err != nil {
		return err
	}
	return d.relay.AwaitStreaming(ctx)
}
