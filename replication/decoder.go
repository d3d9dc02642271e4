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
