package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTranscripts replays the races in testdata. A transcript is a list of "command → result", the arrow being
// left out where there is nothing to answer; the commands run one after the other on a real database, and -update writes down what they answered, to be reviewed.
//
// Workers (w1, w2 …) remember the last claim that they got of each item, as a relay does, however late they
// come back with its outcome.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("transcripts: found %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { replay(t, file) })
	}
}

func replay(t *testing.T, file string) {
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{policy: DefaultPolicy(), ids: map[string]int64{}, held: map[string]Item{}}
	var got strings.Builder
	for n, line := range strings.Split(strings.TrimSuffix(string(want), "\n"), "\n") {
		command, _, _ := strings.Cut(line, "→")
		command = strings.TrimRight(command, " ")
		if command == "" || command[0] == '#' {
			got.WriteString(line + "\n")
			continue
		}
		words := strings.Fields(command)
		if words[0] == "policy" {
			s.setPolicy(t, words[1:])
			got.WriteString(line + "\n")
			continue
		}
		if s.fixture == nil {
			s.fixture = newFixture(t, s.policy)
		}
		result, err := s.run(words[0], words[1:])
		if err != nil {
			t.Fatalf("%s:%d: %s: %v", file, n+1, command, err)
		}
		if result != "" {
			command = fmt.Sprintf("%-28s → %s", command, result)
		}
		got.WriteString(command + "\n")
	}
	if got.String() == string(want) {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s went another way; if that is right, run go test ./machine -run Transcripts -update and review it:\n%s", file, got.String())
}
