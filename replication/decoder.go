package replication

import (
	"fmt"
	"time"
)

// decoder turns the messages of one pgoutput stream (protocol version 1) into changes. It is a function
// of the bytes and of what the stream has told before; it does no I/O.
//
// Its state belongs to one stream: each START_REPLICATION begins with a new decoder, since the server
// tells every relation anew.
type decoder struct {
	relations map[uint32]*relation
	names     names
	open      bool // between Begin and Commit

	// changes is the memory that event.changes points to, used again for every message.
	changes []Change
}

func newDecoder() *decoder {
	return &decoder{relations: map[uint32]*relation{}, names: names{}, changes: make([]Change, 0, 8)}
}

type eventKind uint8

const (
	noEvent eventKind = iota // nothing for the handler: Relation, Type, Origin, a message of somebody else
	beginEvent
	changeEvent
	commitEvent
)

// event is what a message says. It is valid until the next decode.
type event struct {
	kind    eventKind
	commit  time.Time // begin, commit: by the server's clock
	end     LSN       // commit: where the transaction's record ends
	changes []Change  // change: one, or as many as an announcement has
}

// decode reads one message. The error is a *DecodeError; nothing is skipped to avoid one.
func (d *decoder) decode(b []byte) (event, error) {
	if len(b) == 0 {
		return event{}, &DecodeError{Message: "message", Field: "type", Need: "1 bytes", Got: "0"}
	}
	c := &cursor{message: messageName(b[0]), b: b, at: 1}
	e := d.message(c, b[0])
	if c.err != nil {
		return event{}, c.err
	}
	return e, nil
}

func (d *decoder) message(c *cursor, kind byte) event {
	d.changes = d.changes[:0]
	switch kind {
	case 'B':
		return d.begin(c)
	case 'C':
		return d.commit(c)
	case 'I':
		d.insert(c)
	case 'U':
		d.update(c)
	case 'D':
		d.delete(c)
	case 'T':
		d.truncate(c)
	case 'M':
		d.announcement(c)
	case 'R':
		d.relation(c)
	case 'Y', 'O':
		// Type: a column of a type that isn't built in; weir reads none. Origin: where a replicated
		// transaction came from; a change counts wherever it came from.
	default:
		c.fail("type", "one of B C I U D T M R Y O", fmt.Sprintf("%q", kind))
	}
	if len(d.changes) == 0 {
		return event{}
	}
	if !d.open {
		c.fail("order", "Begin before it", "no open transaction")
	}
	return event{kind: changeEvent, changes: d.changes}
}

func (d *decoder) begin(c *cursor) event {
	c.lsn("final LSN")
	commit := c.time("commit time")
	c.uint32("xid")
	c.end()
	if d.open {
		c.fail("order", "Commit before it", "an open transaction")
	}
	d.open = c.err == nil
	return event{kind: beginEvent, commit: commit}
}

func (d *decoder) commit(c *cursor) event {
	c.uint8("flags")
	c.lsn("commit LSN")
	end := c.lsn("end LSN")
	commit := c.time("commit time")
	c.end()
	if !d.open {
		c.fail("order", "Begin before it", "no open transaction")
	}
	d.open = false
	return event{kind: commitEvent, commit: commit, end: end}
}

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

// messageName is the manual's name of a message type.
func messageName(kind byte) string {
	switch kind {
	case 'B':
		return "Begin"
	case 'C':
		return "Commit"
	case 'I':
		return "Insert"
	case 'U':
		return "Update"
	case 'D':
		return "Delete"
	case 'T':
		return "Truncate"
	case 'M':
		return "Message"
	case 'R':
		return "Relation"
	case 'Y':
		return "Type"
	case 'O':
		return "Origin"
	}
	return fmt.Sprintf("message %q", kind)
}
