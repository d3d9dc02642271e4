package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// tally is what became of the lines so far. Its JSON form is the summary.
type tally struct {
	Read       int64 `json:"read"`
	Valid      int64 `json:"valid,omitempty"` // with --dry-run
	Inserted   int64 `json:"inserted"`
	Existing   int64 `json:"already_there"`
	Mismatched int64 `json:"mismatched"`
	Bad        int64 `json:"bad"`

	upTo   int // the last line that is committed
	bar    *progressbar.ProgressBar
	stderr io.Writer
	file   *json.Encoder // nil without --errors
	failed error         // of writing to file
}

// bad reports a line that isn't enqueued.
func (t *tally) bad(r record, err error) {
	t.Bad++
	t.report(r, err.Error())
}

func (t *tally) report(r record, problem string) {
	t.bar.Clear() //nolint:errcheck // it only draws
	fmt.Fprintf(t.stderr, "line %d: %s\n", r.line, printable(problem))
	if t.file == nil || t.failed != nil {
		return
	}
	t.failed = t.file.Encode(struct {
		Line  int    `json:"line"`
		Error string `json:"error"`
		Input string `json:"input,omitempty"`
	}{r.line, problem, r.input})
}

func (t *tally) print(w io.Writer, dry bool) {
	if dry {
		fmt.Fprintf(w, "read %d: valid %d, bad %d. Nothing was enqueued.\n", t.Read, t.Valid, t.Bad)
		return
	}
	fmt.Fprintf(w, "read %d: inserted %d, already there %d, mismatched payload %d, bad %d\n",
		t.Read, t.Inserted, t.Existing, t.Mismatched, t.Bad)
}

// progress draws on standard error, where that is a terminal.
func (a *app) progress(size int64) *progressbar.ProgressBar {
	out := io.Discard
	if file, ok := a.stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		out = file
	}
	return progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription("enqueue"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100e6),
		// Where the size isn't known it would draw from a goroutine of its own, unguarded against Clear.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)
}
