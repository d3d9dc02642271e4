package imports

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// strange finds what means something only where weir was written: paths of that machine and its notes.
var strange = regexp.MustCompile(strings.Join([]string{
	`(^|[^\w./-])/wor` + `k\b`, `/hom` + `e/\w+`, `\.libr` + `ary\b`, `\.\./sha` + `red\b`, `(?i)issue ` + `#\d`, `stand` + `in/`,
}, "|"))

// Everything that is in the repository means the same to everybody who reads it.
func TestWords(t *testing.T) {
	const root = "../.."
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == ".scratch"):
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			return nil // not a text
		}
		files++
		for i, line := range bytes.Split(text, []byte("\n")) {
			if found := strange.Find(line); found != nil {
				t.Errorf("%s:%d: %q: it means nothing elsewhere", strings.TrimPrefix(path, root+"/"), i+1, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("looked at %d files only", files)
	}
}
