package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// shown bounds the items whose history is written down.
const shown = 50

// report writes the evidence of a failure beside the relays' logs.
func (w *world) report() error {
	var b strings.Builder
	for _, fault := range w.faults {
		fmt.Fprintln(&b, fault)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "faults.txt"), []byte(b.String()), 0o644); err != nil {
		return err
	}
	if err := w.journal.write(filepath.Join(w.dir, "timeline.txt")); err != nil {
		return err
	}
	var items strings.Builder
	if w.history != nil {
		for _, id := range w.offenders(b.String()) {
			for _, v := range w.history.rows[id] {
				fmt.Fprintln(&items, v)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "items.txt"), []byte(items.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.dir, "postgres.log"), []byte(w.arena.cluster.LogTail()), 0o644)
}

var named = regexp.MustCompile(`item (\d+)[ :]`)

// offenders are the items that the faults name, and those that never came to rest.
func (w *world) offenders(faults string) []int64 {
	var ids []int64
	for _, match := range named.FindAllStringSubmatch(faults, shown) {
		id, err := strconv.ParseInt(match[1], 10, 64)
		if err == nil {
			ids = append(ids, id)
		}
	}
	for id, versions := range w.history.rows {
		if len(ids) < shown && versions[len(versions)-1].state.Open() {
			ids = append(ids, id)
		}
	}
	return ids
}
