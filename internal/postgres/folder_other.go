//go:build !linux

package postgres

import (
	"errors"
	"os"
)

func defaultParent() string { return os.TempDir() }

// lockFile only makes the file: where a server can outlive its parent, a folder
// without an owner may still be in use, so none is ever taken for abandoned.
func lockFile(path string, flags int) (*os.File, error) {
	if flags&os.O_CREATE == 0 {
		return nil, errors.ErrUnsupported
	}
	return os.OpenFile(path, os.O_RDONLY|flags, 0o600)
}
