package replication

import (
	"fmt"
	"time"

	"github.com/weir-relay/weir/machine"
)

// tuple reads the values of one row version into x. A column that is sent as "unchanged" (TOAST) keeps
// what x has, which is the old row version's value where the table's replica identity is full.
//
// given has a bit for each column whose value is known; tuple answers it with its own added.
func (d *decoder) tuple(c *cursor, r *relation, x *Change, given uint) uint {
	n := c.uint16("number of values")
	if c.err == nil && n != len(r.columns) {
		c.fail("number of values", fmt.Sprint(len(r.columns)), fmt.Sprint(n))
	}
	for i := 0; i < n && c.err == nil; i++ {
		column := r.columns[i]
		switch kind := c.uint8("kind of value"); kind {
		case 'u':
		case 'n':
			given |= d.null(c, column, x)
		case 't':
			value := c.next(int(int32(c.uint32("length of value"))), "value")
			if c.err == nil {
				given |= d.value(c, column, value, x)
			}
		default:
			c.fail("kind of value", "n, u or t", fmt.Sprintf("%q", kind))
		}
	}
	return given
}

// null takes a NULL, which three of the columns may be. Of a key, all but the id are.
func (d *decoder) null(c *cursor, column int, x *Change) uint {
	switch column {
	case colOther:
		return 0
	case colFromState:
		x.From = machine.None
	case colLeaseExpiresAt:
		x.LeaseExpiresAt = time.Time{}
	default:
		c.fail(columns[column], "a value", "NULL")
	}
	return 1 << column
}

func (d *decoder) value(c *cursor, column int, b []byte, x *Change) uint {
	ok := true
	switch column {
	case colOther:
		return 0
	case colID:
		x.ID, ok = parseInt(b)
	case colExporter:
		x.Exporter = d.names.get(b)
	case colState:
		x.State, ok = parseState(b)
	case colFromState:
		x.From, ok = parseState(b)
	case colNextAttemptAt:
		x.NextAttemptAt, ok = parseTime(b)
	case colLeaseExpiresAt:
		x.LeaseExpiresAt, ok = parseTime(b)
	}
	if !ok {
		c.fail(columns[column], needs[column], fmt.Sprintf("%.60q", b))
	}
	return 1 << column
}

// needs says what a value of each column looks like, for the error.
var needs = [colCount]string{
	colID:             "a bigint",
	colState:          "a state of this weir's machine",
	colFromState:      "a state of this weir's machine",
	colNextAttemptAt:  "a timestamptz in ISO style",
	colLeaseExpiresAt: "a timestamptz in ISO style",
}

// complete demands that every column's value is known.
func complete(c *cursor, given uint) {
	for column, name := range columns {
		if given&(1<<column) == 0 {
			c.fail(name, "a value", "one marked unchanged, without the old row version")
		}
	}
}

func parseState(b []byte) (machine.State, bool) {
	for _, s := range machine.States {
		if string(b) == string(s) {
			return s, true
		}
	}
	return machine.None, false
}

// names keeps one string for each exporter, so that a change allocates none.
type names map[string]string

// namesLimit bounds what a producer can make weir remember by inventing exporters.
const namesLimit = 1024

func (n names) get(b []byte) string {
	if s, ok := n[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(n) < namesLimit {
		n[s] = s
	}
	return s
}
