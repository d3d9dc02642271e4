package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	folderPrefix = "weir-postgres-"
	lockName     = "lock"
)

// folder is a cluster's private folder.
type folder struct {
	path string
	lock *os.File // nil: the folder outlives us on purpose
}

// newFolder makes a folder that the server's account owns, after it has removed
// those that killed processes left behind.
func newFolder(opts Options, as account) (*folder, error) {
	parent := opts.Dir
	if parent == "" {
		parent = defaultParent()
	}
	if err := removeAbandoned(parent); err != nil {
		return nil, fmt.Errorf("remove folders of dead processes: %w", err)
	}
	path, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	if !opts.Keep {
		// Locked under another name first: nobody may find the lock file and not the lock.
		if f.lock, err = lockFile(path+"/"+lockName+".new", os.O_CREATE); err == nil {
			err = os.Rename(f.lock.Name(), filepath.Join(path, lockName))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.remove())
		}
	}
	if as.switched {
		if err := os.Chown(path, as.uid, as.gid); err != nil {
			return nil, errors.Join(err, f.remove())
		}
	}
	return f, nil
}

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return err
}

// removeAbandoned takes each lock that is free: its owner is dead.
func removeAbandoned(parent string) error {
	locks, err := filepath.Glob(filepath.Join(parent, folderPrefix+"*", lockName))
	if err != nil {
		return err
	}
	for _, path := range locks {
		lock, err := lockFile(path, 0)
		if err != nil {
			continue // held, somebody else's, or removed meanwhile
		}
		abandoned := folder{path: filepath.Dir(path), lock: lock}
		if err := abandoned.remove(); err != nil && !errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	return nil
}
