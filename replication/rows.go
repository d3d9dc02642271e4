package replication

import "fmt"

// known answers the relation that the next field names.
func (d *decoder) known(c *cursor) *relation {
	oid := c.uint32("relation")
	r := d.relations[oid]
	if c.err == nil && r == nil {
		c.fail("relation", "a Relation message before it", fmt.Sprintf("unknown relation %d", oid))
	}
	return r
}

// add makes room for a change of the given kind.
func (d *decoder) add(kind Kind) *Change {
	d.changes = append(d.changes, Change{Kind: kind})
	return &d.changes[len(d.changes)-1]
}

func (d *decoder) insert(c *cursor) {
	r := d.known(c)
	if c.err != nil || r.foreign {
		return
	}
	c.marker('N')
	complete(c, d.tuple(c, r, d.add(Insert), 0))
	c.end()
}

func (d *decoder) update(c *cursor) {
	r := d.known(c)
	if c.err != nil || r.foreign {
		return
	}
	x, given := d.add(Update), uint(0)
	switch kind := c.uint8("kind of row version"); kind {
	case 'N':
	case 'K':
		c.skipTuple()
		c.marker('N')
	case 'O':
		given = d.tuple(c, r, x, 0)
		c.marker('N')
	default:
		c.fail("kind of row version", "K, O or N", fmt.Sprintf("%q", kind))
	}
	complete(c, d.tuple(c, r, x, given))
	c.end()
}

// delete reads the id only. That is all that a key has, and of an old row version no more is promised.
func (d *decoder) delete(c *cursor) {
	r := d.known(c)
	if c.err != nil || r.foreign {
		return
	}
	if kind := c.uint8("kind of row version"); c.err == nil && kind != 'K' && kind != 'O' {
		c.fail("kind of row version", "K or O", fmt.Sprintf("%q", kind))
	}
	id := c.valueAt(r, colID)
	c.end()
	if c.err != nil {
		return
	}
	x, ok := d.add(Delete), false
	if x.ID, ok = parseInt(id); !ok {
		c.fail(columns[colID], needs[colID], fmt.Sprintf("%.60q", id))
	}
}

func (d *decoder) truncate(c *cursor) {
	n := c.uint32("number of relations")
	c.uint8("options")
	for i := uint32(0); i < n && c.err == nil; i++ {
		if r := d.known(c); c.err == nil && !r.foreign {
			d.add(Truncate)
		}
	}
	c.end()
}

// marker demands the byte that stands before a row version.
func (c *cursor) marker(want byte) {
	if got := c.uint8("kind of row version"); c.err == nil && got != want {
		c.fail("kind of row version", string(rune(want)), fmt.Sprintf("%q", got))
	}
}

// skipTuple passes over a row version.
func (c *cursor) skipTuple() { c.valueAt(&relation{}, colID) }

// valueAt passes over a row version and answers the text of one of its columns.
func (c *cursor) valueAt(r *relation, column int) []byte {
	var found []byte
	n := c.uint16("number of values")
	for i := 0; i < n && c.err == nil; i++ {
		switch kind := c.uint8("kind of value"); kind {
		case 'n', 'u':
		case 't':
			value := c.next(int(int32(c.uint32("length of value"))), "value")
			if i < len(r.columns) && r.columns[i] == column {
				found = value
			}
		default:
			c.fail("kind of value", "n, u or t", fmt.Sprintf("%q", kind))
		}
	}
	return found
}
