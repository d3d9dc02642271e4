package postgres

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// parentEnv makes this test binary a process that starts a cluster, says where,
// and then waits to be killed.
const parentEnv = "WEIR_POSTGRES_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		beParent(dir)
	}
	os.Exit(m.Run())
}

func TestServerDiesWithKilledParent(t *testing.T) {
	dir := sharedDir(t)
	parent, postmaster, folder := startParent(t, dir)
	if !alive(postmaster) {
		t.Fatalf("postmaster %d is not there while its parent lives", postmaster)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err == nil {
		t.Fatal("parent ended by itself")
	}
	if err := waitGone([]int{postmaster}); err != nil {
		t.Fatal(err)
	}

	// Its folder is removed by the next start, a live neighbour's is not.
	first := start(t, Options{Dir: dir})
	start(t, Options{Dir: dir})
	if _, err := os.Stat(folder); err == nil {
		t.Errorf("%s has no owner any more and is still there", folder)
	}
	if _, err := os.Stat(first.Dir()); err != nil {
		t.Errorf("a live cluster lost its folder: %v", err)
	}
}

// The kernel's parent is the thread that forked, and Go ends threads.
func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	var c *Cluster
	var err error
	tid := onEndingThread(func() { c, err = Start(t.Context(), Options{NoFsync: true}) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	if err := waitGone([]int{tid}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // a signal takes a moment to be obeyed
		query(t, c, "SELECT 'here'")
	}
}

// onEndingThread runs f on a thread that ends soon after it, as a locked one
// does with its goroutine. The main thread never ends: it is only kept busy.
func onEndingThread(f func()) (tid int) {
	done := make(chan int)
	go func() {
		runtime.LockOSThread()
		if tid := syscall.Gettid(); tid != os.Getpid() {
			f()
			done <- tid
			return
		}
		done <- onEndingThread(f)
	}()
	return <-done
}

// sharedDir is a folder that the server's account can enter, unlike t.TempDir.
func sharedDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func startParent(t *testing.T, dir string) (parent *exec.Cmd, postmaster int, folder string) {
	t.Helper()
	parent = exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+dir)
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parent.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { parent.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("parent: %v", err)
	}
	if _, err := fmt.Sscanf(strings.TrimSpace(line), "%d %s", &postmaster, &folder); err != nil {
		t.Fatalf("parent said %q: %v", line, err)
	}
	return parent, postmaster, filepath.Clean(folder)
}

func beParent(dir string) {
	c, err := Start(context.Background(), Options{Dir: dir, NoFsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.server.cmd.Process.Pid, c.Dir())
	// Killed here, or told by the end of its input that the test is gone.
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	c.Stop()
	os.Exit(0)
}
