package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
)

// account is who runs the server programs. They refuse to run as root.
type account struct {
	switched bool // false: as ourselves; uid and gid are then unused
	uid, gid int
}

func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return account{}, fmt.Errorf("account %s: %w", name, err)
		}
		return account{switched: true, uid: uid, gid: gid}, nil
	}
	return account{}, errors.New("Postgres refuses to run as root and there is no user postgres or nobody: run this as an ordinary user")
}

// process is a child that dies with us.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child was reaped
	err  error         // set before done is closed
}

// startProcess forks from a goroutine that keeps its OS thread until the child
// is gone: the kernel sends a parent-death signal when the *thread* that forked
// ends, and Go ends idle threads as it likes.
func startProcess(cmd *exec.Cmd, as account) (*process, error) {
	cmd.SysProcAttr = sysProcAttr(as)
	cmd.Env = environment()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// run runs a program to its end; an error carries what the program said.
func run(ctx context.Context, as account, dir, program string, args ...string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = &output, &output
	p, err := startProcess(cmd, as)
	if err != nil {
		return err
	}
	<-p.done
	if p.err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("%s: %w", program, p.err), context.Cause(ctx), errors.New(strings.TrimSpace(output.String())))
}

// environment is ours without the PG* variables, which would point the server
// programs at somebody else's server or data.
func environment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PG") && !strings.HasPrefix(kv, "LC_") && !strings.HasPrefix(kv, "TZ=") {
			env = append(env, kv)
		}
	}
	return env
}
