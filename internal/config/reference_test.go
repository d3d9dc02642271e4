package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// Every setting is explained: the comments of config.go are the reference.
func TestReferenceExplainsEverySetting(t *testing.T) {
	_, rows, _ := strings.Cut(Reference(), "--- |\n")
	for line := range strings.Lines(rows) {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) != 4 || len(cells[3]) < 10 {
			t.Errorf("no meaning, or a bar inside it: %s", line)
		}
	}
	for _, want := range []string{
		"| `policy.lease` | `WEIR_POLICY_LEASE` | `2m` | How long a claim holds an item.",
		"| `lanes.<lane>.stripe.key` | `WEIR_LANES_<LANE>_KEY` |  |",
		"| `lanes.<lane>.stripe.meters.<event_name>.value_key` |  | `value` |",
		"| `lanes.<lane>.stripe.stream` | `WEIR_LANES_<LANE>_STREAM` | `false` |",
		"| `lanes.<lane>.stripe.mapping.features.<feature>.since` |  |  | The cutover",
	} {
		if !strings.Contains(Reference(), want) {
			t.Errorf("want %q in\n%s", want, Reference())
		}
	}
}

// docs/configuration.md quotes the reference.
func TestDocsQuoteReference(t *testing.T) {
	const path = "../../docs/configuration.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), Reference()) {
		t.Errorf("%s doesn't hold the reference: paste the output of weir config reference", path)
	}
}

// A default is written as the reference and weir config show print it.
func TestDefaultsAreCanonical(t *testing.T) {
	c := &Config{}
	fill(reflect.ValueOf(c).Elem())
	for _, f := range c.fields() {
		if f.def != "" && f.text() != f.def {
			t.Errorf("%s: default %q is printed as %q", f.path, f.def, f.text())
		}
	}
}
