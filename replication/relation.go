package replication

import "strings"

// The table that is decoded, and what of it. The publication's column list must hold these.
const (
	schema = "weir"
	table  = "deliveries"
)

var columns = []string{"id", "exporter", "state", "from_state", "next_attempt_at", "lease_expires_at"}

// A column is what a value of the tuple means, -1 being one that the publication has and weir does not read.
const (
	colID = iota
	colExporter
	colState
	colFromState
	colNextAttemptAt
	colLeaseExpiresAt
	colCount
	colOther = -1
)

// relation is the shape of a table as the latest Relation message told it: which column stands where.
type relation struct {
	foreign bool  // not weir.deliveries: its changes say nothing about items
	columns []int // the column at each position of a tuple
}

// relation reads a Relation message. Columns are found by name, so that another order, or more of them,
// changes nothing.
func (d *decoder) relation(c *cursor) {
	oid := c.uint32("relation")
	name := string(c.text("schema")) + "." + string(c.text("table"))
	c.uint8("replica identity")
	r := &relation{foreign: name != schema+"."+table}
	var seen [colCount]bool
	for range c.uint16("number of columns") {
		c.uint8("column flags")
		column := columnOf(c.text("column name"))
		c.uint32("column type")
		c.uint32("column modifier")
		if c.err != nil {
			return
		}
		r.columns = append(r.columns, column)
		if column != colOther {
			seen[column] = true
		}
	}
	c.end()
	for column, there := range seen {
		if !there && !r.foreign {
			c.fail("columns", strings.Join(columns, ", "), "no "+columns[column])
		}
	}
	if c.err == nil {
		d.relations[oid] = r
	}
}

func columnOf(name []byte) int {
	for i, known := range columns {
		if string(name) == known {
			return i
		}
	}
	return colOther
}
