package conformance

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const (
	module  = "github.com/stripe/stripe-mock@v0.203.0"
	program = "WEIR_TEST_STRIPE_MOCK"
)

// mock is the stripe-mock that the tests share: the first one starts it, TestMain stops it.
var mock struct {
	once    sync.Once
	url     string
	why     string // it isn't there; "" where it is
	process *exec.Cmd
	folder  string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if mock.process != nil {
		mock.process.Process.Kill() //nolint:errcheck // it may have ended by itself
		mock.process.Wait()         //nolint:errcheck // killed
	}
	if mock.folder != "" {
		os.RemoveAll(mock.folder)
	}
	os.Exit(code)
}

// stripeMock answers the address of a running stripe-mock, or skips the test.
func stripeMock(t *testing.T) string {
	t.Helper()
	mock.once.Do(func() {
		if err := startMock(); err != nil {
			mock.why = err.Error()
		}
	})
	if mock.why != "" && os.Getenv(program) != "" {
		t.Fatalf("%s: %s", program, mock.why)
	}
	if mock.why != "" {
		t.Skipf("without stripe-mock there is nothing to compare with: %s", mock.why)
	}
	return mock.url
}

func startMock() error {
	path, err := mockProgram()
	if err != nil {
		return err
	}
	plain, err := freeAddress()
	if err != nil {
		return err
	}
	encrypted, err := freeAddress() // with none given it would listen on all interfaces
	if err != nil {
		return err
	}
	process := exec.Command(path, "-http-addr", plain, "-https-addr", encrypted)
	if err := process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	mock.process, mock.url = process, "http://"+plain
	return waitFor(mock.url)
}

// mockProgram is the program's path. It is installed into a folder of its own, not among the user's programs.
func mockProgram() (string, error) {
	if path := os.Getenv(program); path != "" {
		return path, nil
	}
	folder, err := os.MkdirTemp("", "stripe-mock-")
	if err != nil {
		return "", err
	}
	mock.folder = folder
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "go", "install", module)
	install.Dir = folder // outside of this module
	install.Env = append(os.Environ(), "GOBIN="+folder, "GOFLAGS=")
	if said, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w: %s", module, err, said)
	}
	return filepath.Join(folder, "stripe-mock"), nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func waitFor(url string) error {
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.Get(url)
		if err == nil {
			return response.Body.Close()
		}
		select {
		case <-deadline:
			return fmt.Errorf("stripe-mock doesn't answer: %w", err)
		case <-tick.C:
		}
	}
}
