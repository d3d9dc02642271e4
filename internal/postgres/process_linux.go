package postgres

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func sysProcAttr(as account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setpgid:   true,            // a ^C at the terminal is for us; we stop the server in order
		Pdeathsig: syscall.SIGQUIT, // immediate shutdown, which also takes the backends along
	}
	if as.switched {
		attr.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)}
	}
	return attr
}

// children are the live child processes of pid. Backends call setsid, so they
// can't be reached as a process group.
func children(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, path := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if s, ok := readStat(child); ok && s.parent == pid && s.state != 'Z' {
			found = append(found, child)
		}
	}
	return found, nil
}

// alive counts a zombie as dead: nobody may be there to reap an orphan.
func alive(pid int) bool {
	s, ok := readStat(pid)
	return ok && s.state != 'Z'
}

type procStat struct {
	state  byte
	parent int
}

func readStat(pid int) (procStat, bool) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, false // gone meanwhile
	}
	// pid (command, which may hold spaces and brackets) state ppid …
	var s procStat
	if _, err := fmt.Sscanf(string(line[bytes.LastIndexByte(line, ')')+1:]), " %c %d", &s.state, &s.parent); err != nil {
		return procStat{}, false
	}
	return s, true
}

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

func halt(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }
