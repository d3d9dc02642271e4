package torture

import (
	"slices"
	"time"

	"github.com/weir-relay/weir/machine"
)

// sight is when an item is visible to everybody, after its commit by the server's clock: a commit may wait for a
// standby, and a claim sees what was there when it began.
const sight = 3 * time.Second

// checkOrder looks whether an item of a lane that keeps the order of keys was claimed while an earlier one with
// its key was open, and visible for long.
func (w *world) checkOrder(rows map[string]row) {
	if w.plan.Order != machine.PerKey {
		return
	}
	lines := map[string][]int64{}
	for identifier, r := range rows {
		if key := w.truth.committed[identifier].Key; key != "" {
			lines[key] = append(lines[key], r.id)
		}
	}
	for key, ids := range lines {
		slices.Sort(ids)
		for i, id := range ids {
			for _, v := range w.history.rows[id] {
				for _, earlier := range ids[:i] {
					if v.state == machine.Leased && w.history.open(earlier, v.commit) {
						w.fail("item %d was claimed at %s while item %d, which is before it in line %s, was open", id, clock(v.commit), earlier, key)
					}
				}
			}
		}
	}
}

// open says whether an item was open at that time, and visible for long.
func (h *history) open(id int64, at time.Time) bool {
	versions := h.rows[id]
	if !versions[0].commit.Add(sight).Before(at) {
		return false
	}
	open := false
	for _, v := range versions {
		if v.commit.After(at) {
			break
		}
		open = v.state.Open()
	}
	return open
}
