// Package imports holds what weir's packages may import, with a reason each. It has only tests.
package imports

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weir-relay/weir/"

// siblings says which packages of weir each one may import; tests are free. Arrows go downwards.
var siblings = []struct {
	name string
	may  []string
	why  string // it may import no others
}{
	{"outbox", nil, "a producer imports it: it brings nothing of the relay along"},
	{"inbox", nil, "a consumer imports it: it brings nothing of the relay along"},
	{"migrations", nil, "the schema is what the others agree on, and depends on none of them"},
	{"machine", nil, "who may do what is decided in one place, by nothing but the row and the database's clock"},
	{"replication", []string{"machine"}, "the stream tells where to look, and never decides: it knows states, not lanes"},
	{"checkpoint", []string{"machine", "replication"}, "it counts what the stream reads, and knows nothing of sending"},
	{"exporter", []string{"machine"}, "the contract speaks of items, not of how they were found"},
	{"exporter/null", []string{"exporter", "machine"}, "an exporter sees the contract only"},
	{"exporter/stripe", []string{"exporter", "machine", "reconcile"}, "an exporter sees the contracts only: to send, and to show the provider's books"},
	{"exporter/stripe/reports", []string{"exporter/stripe", "inbox", "machine", "reconcile"}, "what a report says is fetched by the exporter's client, and handled once"},
	{"exporter/stripe/sandbox", nil, "a stand-in that shared code with what it tests would share its mistakes"},
	{"reconcile", []string{"machine"}, "it compares what was accepted with the provider's books, whoever's they are"},
	{"relay", []string{"machine", "replication", "checkpoint", "exporter"}, "it joins the parts; which exporters there are is the program's business"},
	{"examples", nil, "they are data"},
	{"examples/generate", []string{"outbox"}, "it makes what a producer makes"},
	{"internal/config", []string{"machine"}, "settings are read without starting anything"},
	{"internal/postgres", nil, "it runs any Postgres, with or without weir's schema"},
	{"internal/daemon", []string{"internal/postgres"}, "it runs weir as a process, and sees what a user sees; it takes its ports as the private server does"},
	{"internal/demo", []string{"examples", "exporter/stripe/sandbox", "internal/daemon", "internal/postgres", "machine", "migrations", "outbox"},
		"the demo runs the program that users run, not its packages"},
	{"internal/bench", []string{"exporter/stripe/sandbox", "internal/daemon", "internal/postgres", "machine", "migrations"},
		"figures are taken from the program that users run, not from its packages"},
	{"internal/torture", []string{"exporter/stripe/sandbox", "internal/daemon", "internal/postgres", "machine", "migrations", "outbox"},
		"faults reach weir only from outside: what is tested is the program that users run"},
	{"internal/torture/cmd", []string{"internal/torture"}, "it reads the command line, nothing else"},
	{"internal/pgtest", []string{"internal/postgres", "migrations"}, "all tests use it, so it uses none of what they test but the schema"},
	{"internal/pgtest/prepare", []string{"internal/postgres"}, "it runs before anything else is there"},
	{"cmd/weir", []string{"..."}, "it joins everything"},
}

// homes are the packages that some packages from elsewhere are for.
var homes = []struct {
	imported string // with what lies below it
	only     []string
	why      string // it is for no others
}{
	{"os/signal", []string{"cmd/weir"}, "the process's signals belong to main"},
	{"flag", []string{"examples/generate", "internal/torture/cmd"}, "weir's flags are cobra's"},
	{"github.com/spf13/cobra", []string{"cmd/weir"}, "the command line is the program's business"},
	{"github.com/stripe/stripe-go", []string{"exporter/stripe"}, "one package knows Stripe's client"},
	{"go.yaml.in/yaml", []string{"internal/config"}, "one package reads the settings"},
	{"github.com/pressly/goose", []string{"migrations"}, "one package changes the schema"},
	{"github.com/prometheus", []string{"relay", "reconcile", "cmd/weir"}, "what is counted below those two is answered to them, so the packages there need no registry"},
	{"github.com/jackc/pglogrepl", []string{"replication", "checkpoint", "cmd/weir", "internal/bench", "internal/torture"},
		"the replication protocol is spoken in one place; the others take its LSN, and what measures and checks weir speaks it bare"},
	{"github.com/testcontainers", []string{"internal/pgtest"}, "it starts containers for tests"},
	{"database/sql", []string{"migrations", "outbox", "inbox"}, "goose wants it, and so do some producers; all else is pgx"},
	{"math/rand", []string{"machine", "relay", "replication", "exporter/stripe/sandbox", "examples/generate", "internal/postgres", "internal/bench", "internal/demo", "internal/torture"},
		"it is for jitter and made-up data: nothing that identifies an item is random"},
}

// binary is what must not get into the program, with what lies below it.
var binary = []struct{ imported, why string }{
	{"testing", "tests stay tests"},
	{module + "internal/pgtest", "tests stay tests"},
	{"github.com/testcontainers", "it brings Docker's client along"},
	{"github.com/Shopify/toxiproxy", "it breaks connections for tests"},
	{"github.com/lib/pq", "one driver speaks to Postgres"},
	{"plugin", "the program is static"},
	{"C", "the program is static"},
}

func TestSiblings(t *testing.T) {
	may, why := map[string][]string{}, map[string]string{}
	for _, rule := range siblings {
		may[rule.name], why[rule.name] = rule.may, rule.why
	}
	seen := map[string]bool{}
	for _, p := range packages(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		seen[name] = true
		for _, imported := range p.Imports {
			sibling, ours := strings.CutPrefix(imported, module)
			if ours && !slices.Contains(may[name], sibling) && !slices.Contains(may[name], "...") {
				t.Errorf("%s imports %s: %s", name, sibling, cmp.Or(why[name], "say in siblings whether it may, and why no others"))
			}
		}
	}
	for name := range why {
		if !seen[name] {
			t.Errorf("siblings: there is no package %s", name)
		}
	}
}

func TestHomes(t *testing.T) {
	for _, p := range packages(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			for _, rule := range homes {
				if within(imported, rule.imported) && !slices.Contains(rule.only, name) {
					t.Errorf("%s imports %s: %s", name, imported, rule.why)
				}
			}
		}
	}
}

func TestBinary(t *testing.T) {
	for _, p := range packages(t, "-deps", "./cmd/weir") {
		for _, ban := range binary {
			if within(p.ImportPath, ban.imported) {
				t.Errorf("weir is linked with %s: %s", p.ImportPath, ban.why)
			}
		}
	}
}

// within reports whether path is root or below it.
func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports"}, args...)...)
	cmd.Dir = "../.."
	// The program is built without cgo.
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v: %s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}
