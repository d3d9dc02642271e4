package replication

import (
	"context"
	"fmt"
)

// Create makes the slot of config ahead of the first Run, which then streams from it at once, and counts
// what is there. It waits for every transaction that is running. A slot that is there already stays.
func Create(ctx context.Context, config Config, ledger Ledger) (LSN, error) {
	var at LSN
	err := manage(ctx, config, func(c *connection, source Source, slot SlotInfo) error {
		if slot.Exists {
			return fmt.Errorf("slot %s is there already: drop it first, or leave it: the relay repairs it by itself", source.Slot)
		}
		if err := c.checkPublication(ctx); err != nil {
			return err
		}
		var err error
		at, err = c.create(ctx, ledger, source)
		return err
	})
	return at, err
}

// Drop removes the slot of config. The server then no longer keeps WAL for it; the next Run makes a new
// one and counts anew, so nothing is lost. A slot that isn't there is no error.
func Drop(ctx context.Context, config Config) error {
	return manage(ctx, config, func(c *connection, source Source, slot SlotInfo) error {
		if err := c.checkOwn(slot); err != nil {
			return err
		}
		return c.drop(ctx, source.Slot)
	})
}

// manage runs do with the lock that a streaming process would hold.
func manage(ctx context.Context, config Config, do func(*connection, Source, SlotInfo) error) error {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return err
	}
	c, err := connect(ctx, config)
	if err != nil {
		return classify(err)
	}
	defer c.close()
	source, err := c.identify(ctx)
	if err != nil {
		return classify(err)
	}
	if err := c.checkServer(ctx); err != nil {
		return classify(err)
	}
	mine, err := c.tryLock(ctx)
	if err != nil {
		return classify(err)
	}
	if !mine {
		return fmt.Errorf("slot %s: %w: stop the relay first", source.Slot, ErrActive)
	}
	slot, err := c.inspect(ctx)
	if err != nil {
		return classify(err)
	}
	if slot.Active {
		return fmt.Errorf("slot %s: %w by pid %d: end that first", source.Slot, ErrActive, slot.ActivePID)
	}
	if err := do(c, source, slot); err != nil {
		return classify(err)
	}
	return nil
}
