package imports

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notify finds SQL that uses the server's notifications.
var notify = regexp.MustCompile(`\bpg_noti` + `fy\b|[\x60"';]\s*(NOTI` + `FY|LIST` + `EN)\s+[a-z"]|PERFORM\s+pg_noti` + `fy`)

// lesson "LISTEN/NOTIFY": a commit that notifies takes a lock that all the commits of the server queue for. The log is the
// doorbell, so that a producer's commit costs no more than its rows.
func TestNobodyNotifies(t *testing.T) {
	for _, text := range []string{"SELECT pg_noti" + "fy('a', '')", "`NOTI" + "FY weir`", "`LIST" + "EN weir`"} {
		if !notify.MatchString(text) {
			t.Errorf("%s isn't found", text)
		}
	}
	const root = "../.."
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".sql"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if found := notify.Find(text); found != nil {
			t.Errorf("%s: %q: the log wakes, not a notification", strings.TrimPrefix(path, root+"/"), found)
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
