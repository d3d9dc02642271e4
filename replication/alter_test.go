package replication

import "testing"

// lesson "schema change": the Relation message is the only sign of it. A table that is altered while it is streamed is
// read on, before and after, in one connection.
func TestTableIsAlteredWhileStreaming(t *testing.T) {
	r := setUp(t).start().streaming()
	r.insert("stripe", "before", 1)
	r.counted()
	for _, alter := range []string{
		`ALTER TABLE weir.deliveries ADD COLUMN note text DEFAULT 'x'`,
		`ALTER TABLE weir.deliveries DROP COLUMN note`,
		`ALTER TABLE weir.deliveries ADD COLUMN other int[] DEFAULT '{1,2}'`,
		`ALTER PUBLICATION weir SET TABLE weir.deliveries`, // all columns, in the table's order
	} {
		r.exec(alter)
		r.insert("stripe", alter, 1)
		r.exec(claimSQL)
		r.counted()
	}
	if s := r.stream.Status(); s.Reconnects != 0 || len(s.Recreations) != 0 {
		t.Errorf("reconnects %d, recreations %v: want none", s.Reconnects, s.Recreations)
	}
	r.stop()
}
