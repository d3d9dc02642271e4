package model

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestModel runs the main check, and one mutant to show that the check can fail: without the fence, a late
// settle overwrites another worker's claim. lesson 23
func TestModel(t *testing.T) {
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the model is not checked: %v; docs/model/run.sh installs it as root on Debian", err)
		}
	}
	if testing.Short() {
		t.Skip("the model is not checked: it takes a few seconds, and -short is given")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "./run.sh", "quick").CombinedOutput()
	t.Logf("run.sh quick:\n%s", out)
	if err != nil {
		t.Fatalf("run.sh quick: %v", err)
	}
	found := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			found[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[3])
		}
	}
	for run, want := range map[string]string{"one item": "holds", "fence": "FENCE"} {
		if found[run] != want {
			t.Errorf("run %s found %q, want %q", run, found[run], want)
		}
	}
}
