package checkpoint

import "context"

// turn lets one caller in at a time, like a mutex whose waiting ends with a context.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) pass() { <-t }
