package bench

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Options say where and with what is measured.
type Options struct {
	// Program is weir's executable, which runs the relay.
	Program string
	// URL is the database to use; "": a private cluster.
	URL string
	// Dir is the folder below which the private cluster is put. "": in memory, where an fsync costs nothing.
	Dir string
	// Force uses a database that has items already.
	Force bool
	// Settled is how many settled items are put into the tables before anything is measured.
	Settled int
	// Log gets what the relay says.
	Log io.Writer
	// Progress, if set, is told what happens.
	Progress func(step string)

	settings map[string]string // of the private cluster
}

// rig is what a measurement stands on: a server and a folder.
type rig struct {
	*server
	options Options
	dir     string
}

// setUp opens the server and fills the tables.
func setUp(ctx context.Context, o Options) (_ *rig, err error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r := &rig{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return nil, err
	}
	r.step("preparing Postgres")
	if r.server, err = open(ctx, o); err != nil {
		return nil, err
	}
	if o.Settled > 0 {
		r.step("adding settled items")
		return r, r.addSettled(ctx, o.Settled)
	}
	return r, nil
}

func (r *rig) step(what string) { r.options.Progress(what) }

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) close() error {
	var errs []error
	if r.server != nil {
		errs = append(errs, r.server.close())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}
