package daemon

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the command's process when this one ends, however that comes about.
func dieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
