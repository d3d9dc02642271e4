package postgres

import "errors"

// ErrNotInstalled is returned by Find when the machine has no usable Postgres
// server binaries. Test for it with errors.Is.
var ErrNotInstalled = errors.New("no Postgres server binaries")

// ErrStopped is returned by methods that need a cluster whose folder is gone
// after Stop. Test for it with errors.Is.
var ErrStopped = errors.New("cluster was stopped for good")
