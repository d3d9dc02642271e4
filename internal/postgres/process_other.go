//go:build !linux

package postgres

import (
	"os"
	"syscall"
)

// Only Linux has a parent-death signal, so elsewhere a server may outlive a
// killed parent; and children of another process can't be listed portably, so
// Kill leaves it to the backends to notice that their postmaster is gone.

func sysProcAttr(account) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func children(int) ([]int, error) { return nil, nil }

func halt(int) error { return nil }

func alive(int) bool { return false }

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
