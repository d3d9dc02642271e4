package postgres

import (
	"os"
	"syscall"
)

const sharedMemory = "/dev/shm"

// defaultParent prefers memory, but not the 64 MB that containers often get.
func defaultParent() string {
	const gigabyte = 1 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(sharedMemory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < gigabyte {
		return os.TempDir()
	}
	probe, err := os.MkdirTemp(sharedMemory, folderPrefix)
	if err != nil || os.Remove(probe) != nil {
		return os.TempDir()
	}
	return sharedMemory
}

// lockFile opens and locks, or says at once that it can't. The lock goes with
// the process: the descriptor is closed in children.
func lockFile(path string, flags int) (*os.File, error) {
	// Not blocking, since a stranger may have put a pipe there.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return f, nil
}
