package replication

import "time"

// nag tells a server that waits for the stream's end from one that wants to know whether weir is alive. A
// server that shuts down asks again after each answer until everything that it has written is confirmed.
// That may never be, since the ledger can't be written any more: weir has to leave, or the server would
// never stop.
type nag struct {
	since, last time.Time
	at          LSN
}

const (
	// nagPause is the least pause between two answers.
	nagPause = 100 * time.Millisecond
	// nagLimit is how long a server may ask on: enough for a checkpoint that is still possible.
	nagLimit = 2 * time.Second
)

// again records a request for a reply, and says whether they have been coming for too long.
func (n *nag) again(now time.Time, at LSN) bool {
	if now.Sub(n.last) > 3*nagPause || at != n.at {
		n.since, n.at = now, at
	}
	n.last = now
	return now.Sub(n.since) > nagLimit
}
