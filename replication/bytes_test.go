package replication

import (
	"encoding/binary"
	"time"
)

// Messages as the server sends them, built field by field. Each function names a message and its fields
// in the manual's order.

type raw []byte

func (b raw) byte(v byte) raw     { return append(b, v) }
func (b raw) int16(v int) raw     { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func (b raw) int32(v int) raw     { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func (b raw) int64(v uint64) raw  { return binary.BigEndian.AppendUint64(b, v) }
func (b raw) string(v string) raw { return append(append(b, v...), 0) }
func (b raw) bytes(v string) raw  { return append(b, v...) }

const (
	oid     = 16411 // of weir.deliveries
	foreign = 16500 // of some other table
)

var commitTime = time.Date(2026, time.March, 1, 12, 0, 0, 123456000, time.UTC)

func beginMessage() raw {
	return raw{'B'}.
		int64(0x1_0000_0100).         // final LSN
		int64(timestamp(commitTime)). // commit time
		int32(739)                    // xid
}

func commitMessage(end LSN) raw {
	return raw{'C'}.
		byte(0).                     // flags, unused
		int64(uint64(end) - 0x30).   // commit LSN
		int64(uint64(end)).          // end LSN
		int64(timestamp(commitTime)) // commit time
}

func relationMessage(id int, schema, table string, names ...string) raw {
	b := raw{'R'}.
		int32(id).
		string(schema).
		string(table).
		byte('d'). // replica identity: default
		int16(len(names))
	for _, name := range names {
		b = b.
			byte(0). // flags: 1 for a key column
			string(name).
			int32(25). // type
			int32(-1)  // type modifier
	}
	return b
}

func deliveriesRelation() raw { return relationMessage(oid, schema, table, columns...) }

// tupleOf writes a row version: a string is a value, nil is NULL, unchanged is an unchanged TOAST value.
func (b raw) tupleOf(values ...any) raw {
	b = b.int16(len(values))
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b = b.byte('n')
		case marker:
			b = b.byte(byte(v))
		case string:
			b = b.byte('t').int32(len(v)).bytes(v)
		}
	}
	return b
}

type marker byte

const (
	unchanged marker = 'u'
	binaryVal marker = 'b'
)

const (
	dueText   = "2026-03-01 12:00:00.5+00"
	leaseText = "2026-03-01 12:02:00+00"
)

func insertMessage(values ...any) raw { return raw{'I'}.int32(oid).byte('N').tupleOf(values...) }
func updateMessage(values ...any) raw { return raw{'U'}.int32(oid).byte('N').tupleOf(values...) }

func deleteMessage(id string) raw {
	return raw{'D'}.int32(oid).byte('K').tupleOf(id, nil, nil, nil, nil, nil)
}

func truncateMessage(ids ...int) raw {
	b := raw{'T'}.int32(len(ids)).byte(0) // options: 1 CASCADE, 2 RESTART IDENTITY
	for _, id := range ids {
		b = b.int32(id)
	}
	return b
}

func logicalMessage(flags byte, prefix, content string) raw {
	return raw{'M'}.
		byte(flags).          // 1: transactional
		int64(0x1_0000_0100). // LSN
		string(prefix).
		int32(len(content)).
		bytes(content)
}

// xlogData wraps a message for the stream.
func xlogData(sent time.Time, message raw) raw {
	return raw{'w'}.
		int64(0x1_0000_0100). // start
		int64(0x1_0000_0100). // server end
		int64(timestamp(sent)).
		bytes(string(message))
}

func keepaliveMessage(end LSN, sent time.Time, reply byte) raw {
	return raw{'k'}.
		int64(uint64(end)).
		int64(timestamp(sent)).
		byte(reply)
}
