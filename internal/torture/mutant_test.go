package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is weir with one thing broken on purpose. The harness has to notice within so many seeds.
type mutant struct {
	name    string
	edits   []edit
	strikes []string // the kinds that are drawn
	relays  int      // one that stands by sweeps often, and would hide what is lost
	seeds   uint64
	notice  []string // what is to be noticed, one of these
}

// edit replaces each occurrence of a text in a source file.
type edit struct{ file, old, new string }

var mutants = []mutant{
	{
		name:    "a settle without the fencing token",
		edits:   []edit{{"machine/settle.go", "   AND d.lease_token = s.token\n", ""}},
		strikes: []string{"freeze-holder"},
		relays:  2,
		seeds:   10,
		notice:  []string{"the holder of its lease was not given", "counted no stale write"},
	},
	{
		name: "a lost wake, which only the slow sweep would find",
		edits: []edit{{"relay/doorbell.go", "			l.agenda.now(wake{id: c.ID, commit: d.commit})\n",
			"			if c.Kind != replication.Insert || c.ID%16 != 0 {\n				l.agenda.now(wake{id: c.ID, commit: d.commit})\n			}\n"}},
		strikes: []string{"none"},
		relays:  1,
		seeds:   4,
		notice:  []string{"not at rest"},
	},
	{
		name: "a wake dropped because its row is not visible yet",
		edits: []edit{{"relay/claim.go", "	for _, w := range missing {\n		l.agenda.again(w, now, hiddenLongest)\n	}\n",
			""}},
		strikes: []string{"late-visibility"},
		relays:  1,
		seeds:   12,
		notice:  []string{"not at rest"},
	},
	{
		name: "positions confirmed as soon as they are read, and no sweep at a start",
		edits: []edit{
			{"replication/receiver.go", "max(r.confirmed, min(r.ledger.Confirmed(), r.received))", "max(r.confirmed, r.received)"},
			{"relay/doorbell.go", "		l.streaming.Store(true)\n		l.agenda.sweep()\n", "		l.streaming.Store(true)\n"},
		},
		strikes: []string{"kill"},
		relays:  1,
		seeds:   5,
		notice:  []string{"the slot was confirmed at"},
	},
	{
		name:    "no sweep when the stream starts again",
		edits:   []edit{{"relay/doorbell.go", "		l.streaming.Store(true)\n		l.agenda.sweep()\n", "		l.streaming.Store(true)\n"}, {"relay/relay.go", "		l.agenda.sweep()\n		lanes.Go(", "		lanes.Go("}},
		strikes: []string{"drop-slot", "lose-slot", "kill", "kill-after-claim"},
		relays:  1,
		seeds:   12,
		notice:  []string{"not at rest"},
	},
}

// firstSeed is after seed 3, which has 20,000 items to wait for in vain.
const firstSeed = uint64(4)

// TestMutants shows that the checks can fail: a harness that passes a broken weir proves nothing of a sound one.
// lesson 1, 2, 3, 23.
func TestMutants(t *testing.T) {
	slow(t)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			arena := open(t, Options{Program: m.build(t), Dir: t.TempDir(), Strikes: m.strikes, Relays: m.relays, Patience: 12 * time.Second})
			for seed := firstSeed; seed < firstSeed+m.seeds; seed++ {
				err := arena.Run(t.Context(), seed)
				if err != nil && slices.ContainsFunc(m.notice, func(text string) bool { return strings.Contains(err.Error(), text) }) {
					t.Logf("caught: %v", err)
					return
				}
				if err != nil {
					t.Errorf("something else was noticed: %v", err)
				}
			}
			t.Errorf("nothing was noticed in %d seeds", m.seeds)
		})
	}
}

// build builds the mutant. Its edits are laid over the sources, which stay as they are.
func (m *mutant) build(t *testing.T) string {
	t.Helper()
	dir, root := t.TempDir(), root(t)
	replace := map[string]string{}
	for i, e := range m.edits {
		path := filepath.Join(root, e.file)
		source := path
		if laid := replace[path]; laid != "" {
			source = laid
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), e.old) {
			t.Fatalf("%s no longer has the text that this mutant changes; change the mutant as well:\n%s", e.file, e.old)
		}
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(replace[path], []byte(strings.ReplaceAll(string(text), e.old, e.new)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return build(t, "-overlay", file)
}

// build builds weir and answers its path.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "weir")
	command := exec.Command("go", append(append([]string{"build", "-o", program}, flags...), "./cmd/weir")...)
	command.Dir = root(t)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build weir: %v\n%s", err, out)
	}
	return program
}

// root is the module's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, o Options) *Arena {
	t.Helper()
	arena, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := arena.Close(); err != nil {
			t.Error(err)
		}
	})
	return arena
}
