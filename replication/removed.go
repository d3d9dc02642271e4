package replication

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-relay/weir/machine"
)

// RemovedPrefix is the prefix of the logical decoding messages with which retention announces what it
// deletes in the same transaction, since a Delete doesn't say in which state its row was. The content is
// {"<exporter>": {"<state>": <count>}}.
const RemovedPrefix = "weir.removed"

// announcement reads a Message. One with another prefix is somebody else's, and one outside of a
// transaction would be counted though its deletes were rolled back.
func (d *decoder) announcement(c *cursor) {
	const transactional = 1
	flags := c.uint8("flags")
	c.lsn("LSN")
	prefix := c.text("prefix")
	content := c.next(int(int32(c.uint32("length of content"))), "content")
	c.end()
	if c.err != nil || string(prefix) != RemovedPrefix || flags&transactional == 0 {
		return
	}
	var removed map[string]map[machine.State]int64
	if err := json.Unmarshal(content, &removed); err != nil {
		c.fail("content", `{"<exporter>": {"<state>": <count>}}`, fmt.Sprintf("%.60q", content))
		return
	}
	for _, exporter := range slices.Sorted(maps.Keys(removed)) {
		d.removed(c, exporter, removed[exporter])
	}
}

func (d *decoder) removed(c *cursor, exporter string, counts map[machine.State]int64) {
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		count := counts[state]
		switch {
		case state.Index() < 0:
			c.fail("state", needs[colState], fmt.Sprintf("%.60q", string(state)))
		case count < 0:
			c.fail("count", "0 or more", fmt.Sprint(count))
		case count > 0:
			x := d.add(Removed)
			x.Exporter, x.State, x.Count = exporter, state, count
		}
	}
}
