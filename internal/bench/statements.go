package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// serverLog is a server's log from where it ended when it was opened.
type serverLog struct{ file *os.File }

func openLog(path string) (*serverLog, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the server's log: %w", err)
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		f.Close()
		return nil, fmt.Errorf("read the server's log: %w", err)
	}
	return &serverLog{f}, nil
}

func (l *serverLog) close() { l.file.Close() }

// statements are those that others than the bench have sent since the log was opened, each on one line.
// The log's lines begin with the application's name and a bar; a statement's further lines with a tab.
func (l *serverLog) statements() ([]string, error) {
	var found []string
	foreign := false
	lines := bufio.NewScanner(l.file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if rest, more := strings.CutPrefix(line, "\t"); more {
			if foreign {
				found[len(found)-1] = strings.TrimSpace(found[len(found)-1] + " " + strings.TrimSpace(rest))
			}
			continue
		}
		application, rest, _ := strings.Cut(line, "|")
		text, ok := statement(rest)
		foreign = ok && application != applicationName && application != ""
		if foreign {
			found = append(found, text)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the server's log: %w", err)
	}
	return found, nil
}

// statement is what a line of the log says was executed.
func statement(line string) (string, bool) {
	line = strings.TrimPrefix(line, "LOG:  ")
	if text, ok := strings.CutPrefix(line, "statement: "); ok {
		return strings.TrimSpace(text), true
	}
	if rest, ok := strings.CutPrefix(line, "execute "); ok {
		_, text, _ := strings.Cut(rest, ": ")
		return strings.TrimSpace(text), true
	}
	return "", false
}

type purpose int

const (
	forOther purpose = iota
	forCheckpoint
	forStatus
)

// purposeOf tells a relay's statements apart by the tables that only they name. A ping goes before another
// statement, to a connection that has been idle.
func purposeOf(statement string) purpose {
	switch {
	case strings.Contains(statement, "weir.checkpoints"):
		return forCheckpoint
	case strings.Contains(statement, "pg_replication_slots"), strings.Contains(statement, "inserted_at)"),
		strings.Contains(statement, "d.attention"):
		return forStatus
	}
	return forOther
}
