package checkpoint

import (
	"os"
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
)

// TestMain runs a relay's half instead of the tests where a test has started this binary as one, to kill it.
func TestMain(m *testing.M) {
	if url := os.Getenv(victimURL); url != "" {
		os.Exit(victim(url, os.Getenv(victimSlot)))
	}
	pgtest.Main(m)
}
