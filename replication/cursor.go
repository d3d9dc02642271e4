package replication

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// cursor reads the fields of one message, front to back. The first short read sticks: what is read after
// it is zero, and err says what was needed. So a caller checks once, at the end.
type cursor struct {
	message string // whose fields these are, for the error
	b       []byte
	at      int
	err     *DecodeError
}

func (c *cursor) next(n int, field string) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || len(c.b)-c.at < n {
		c.fail(field, fmt.Sprintf("%d bytes", n), fmt.Sprintf("%d", len(c.b)-c.at))
		return nil
	}
	out := c.b[c.at : c.at+n]
	c.at += n
	return out
}

func (c *cursor) fail(field, need, got string) {
	if c.err == nil {
		c.err = &DecodeError{Message: c.message, Field: field, Need: need, Got: got}
	}
}

func (c *cursor) uint8(field string) byte {
	if b := c.next(1, field); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint16(field string) int {
	if b := c.next(2, field); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) uint32(field string) uint32 {
	if b := c.next(4, field); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) lsn(field string) LSN {
	if b := c.next(8, field); b != nil {
		return LSN(binary.BigEndian.Uint64(b))
	}
	return 0
}

// time reads microseconds since 2000-01-01.
func (c *cursor) time(field string) time.Time {
	if b := c.next(8, field); b != nil {
		return time.UnixMicro(int64(binary.BigEndian.Uint64(b)) + epoch).UTC()
	}
	return time.Time{}
}

// text reads a string that ends in a zero byte.
func (c *cursor) text(field string) []byte {
	if c.err != nil {
		return nil
	}
	n := bytes.IndexByte(c.b[c.at:], 0)
	if n < 0 {
		c.fail(field, "a string ending in a zero byte", fmt.Sprintf("%d bytes without one", len(c.b)-c.at))
		return nil
	}
	out := c.b[c.at : c.at+n]
	c.at += n + 1
	return out
}

// end says that the message should be over.
func (c *cursor) end() {
	if c.err == nil && c.at != len(c.b) {
		c.fail("end", "no more bytes", fmt.Sprintf("%d", len(c.b)-c.at))
	}
}

// epoch is 2000-01-01, where Postgres begins to count, in microseconds of Unix time.
const epoch = 946_684_800_000_000

// timestamp is t as the protocol sends it.
func timestamp(t time.Time) uint64 { return uint64(t.UnixMicro() - epoch) }
