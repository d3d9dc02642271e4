package stripe

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The package's comment names every reason for which this package holds an item.
func TestDocNamesEveryReason(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`problemf\(\s*"([a-z_]+)"|exporter\.Quarantined, exporter\.\w+, machine\.\w+, "([a-z_]+)"`)
	var found []string
	for _, file := range []string{"book.go", "cancel.go", "classify.go", "intake.go", "mapping.go", "original.go", "payload.go", "value.go", "window.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range code.FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1]+m[2])
		}
	}
	if len(found) < 20 {
		t.Fatalf("only %q: the pattern finds too little", found)
	}
	for _, reason := range found {
		family := strings.HasPrefix(reason, "no_") || strings.HasSuffix(reason, "_invalid")
		if !family && !strings.Contains(string(doc), reason) {
			t.Errorf("doc.go doesn't name %s", reason)
		}
	}
	for _, reason := range []string{"feature_buffered", "attribution_unresolved", "original_ineligible", "feature_unmapped", "no_customer", "no_account",
		"mode_mismatch", "account_mismatch", "period_buffered", "timestamp_window"} {
		if !slices.Contains(found, reason) {
			t.Errorf("nothing is quarantined as %s", reason)
		}
	}
}
