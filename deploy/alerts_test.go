// Package deploy has what goes beside weir where it is deployed. It has only tests.
package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	used = regexp.MustCompile(`\bweir_(\w+)`)
	// As the packages relay and reconcile declare them.
	declared = regexp.MustCompile(`(?:desc|counter|histogram|gauge)\("(\w+)",`)
)

// An alert on a metric that doesn't exist never fires, and nothing else says so.
func TestAlertsNameMetrics(t *testing.T) {
	var sources []string
	for _, folder := range []string{"relay", "reconcile"} {
		found, err := filepath.Glob("../" + folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, found...)
	}
	var metrics []string
	for _, source := range sources {
		for _, found := range declared.FindAllSubmatch(read(t, source), -1) {
			metrics = append(metrics, string(found[1]))
		}
	}
	if len(metrics) < 20 {
		t.Fatalf("found few metrics in package relay: %v", metrics)
	}
	alerts := used.FindAllSubmatch(read(t, "alerts.yml"), -1)
	if len(alerts) < 10 {
		t.Errorf("found few metrics in the alerts: %q", alerts)
	}
	for _, found := range alerts {
		if name := string(found[1]); !slices.Contains(metrics, name) {
			t.Errorf("alerts.yml: there is no metric weir_%s", name)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
