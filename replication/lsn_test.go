package replication

import (
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

// crossings are positions in their order. As text, or with the halves put together without their zeros, they come
// in another.
var crossings = []string{"1/0", "1/A", "1/FFFFFFF0", "2/0", "2/A", "9/FFFFFFFF", "A/0", "10/0", "FF/FFFFFFFF", "100/1", "7FFFFFFF/FFFFFFFF", "80000000/0", "FFFFFFFF/FFFFFFFE"}

// lesson "LSN types": a position is one unsigned number of 64 bits, in order across each 4 GiB and without a sign.
func TestPositionsInOrder(t *testing.T) {
	play(t, func(f *fake) {
		var before LSN
		for _, text := range crossings {
			at, err := pglogrepl.ParseLSN(text)
			if err != nil || at.String() != text {
				t.Fatalf("%s reads as %s, %v", text, at, err)
			}
			if at <= before {
				t.Fatalf("%s is not after %s", at, before)
			}
			f.pass(deliveriesRelation(), beginMessage(), commitMessage(at))
			f.ledger.Flush(t.Context())
			<-time.After(time.Second)
			f.send(keepaliveMessage(before, time.Now(), 1)) // one that lags behind, across the boundary
			if s := f.stream.Status(); s.Received != at || s.Confirmed != at {
				t.Errorf("at %s: received %s, confirmed %s", at, s.Received, s.Confirmed)
			}
			if s := f.last(); s.flushed != at {
				t.Errorf("at %s: the server was told %s", at, s.flushed)
			}
			before = at
		}
	})
}
