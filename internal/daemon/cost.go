package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Cost is what a process has taken since it began.
type Cost struct {
	CPU    time.Duration
	RSS    int64 // bytes now
	MaxRSS int64 // bytes at most
}

// Cost is what the relay has taken. It reads /proc, so there is none where there is no Linux.
func (r *Relay) Cost() (Cost, error) {
	pid := r.command.Process.Pid
	s, err := readStat(pid)
	if err != nil {
		return Cost{}, err
	}
	c := Cost{CPU: s.own}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Cost{}, err
	}
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "VmRSS":
			c.RSS = kilobytes(value)
		case "VmHWM":
			c.MaxRSS = kilobytes(value)
		}
	}
	return c, nil
}

func kilobytes(value string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	return n << 10
}

// FamilyCPU is the CPU time of the parent of process pid, of its children and of those that have ended: of a
// whole Postgres server, where pid is one of its backends.
func FamilyCPU(pid int) (time.Duration, error) {
	one, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	parent, err := readStat(one.parent)
	if err != nil {
		return 0, err
	}
	sum := parent.own + parent.ended
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if s, err := readStat(child); err == nil && s.parent == one.parent {
			sum += s.own
		}
	}
	return sum, nil
}

type stat struct {
	parent     int
	own, ended time.Duration // CPU time of the process, and of its children that have ended
}

// tick is the unit of CPU times in /proc on every architecture that Go runs on.
const tick = time.Second / 100

func readStat(pid int) (stat, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// pid (command, which may hold spaces and brackets) state ppid … utime stime cutime cstime …
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%d/stat: need 15 fields after the command, got %d", pid, len(fields))
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
	return stat{
		parent: int(number(1)),
		own:    time.Duration(number(11)+number(12)) * tick,
		ended:  time.Duration(number(13)+number(14)) * tick,
	}, nil
}
