package torture

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// journal is a run's timeline: what was done to weir, and when.
type journal struct {
	start time.Time

	mu   sync.Mutex
	text strings.Builder
}

func newJournal() *journal { return &journal{start: time.Now()} }

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(&j.text, "%s %7.3fs  %s\n", time.Now().UTC().Format("15:04:05.000"), time.Since(j.start).Seconds(), fmt.Sprintf(format, args...))
}

func (j *journal) write(path string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return os.WriteFile(path, []byte(j.text.String()), 0o644)
}
