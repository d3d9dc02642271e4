// Package examples holds usage records to try weir with: three days of 50 customers on 4 meters, with
// corrections, one item that its producer holds back, and one for a meter that doesn't exist.
//
// usage.ndjson has one outbox item a line, as `weir enqueue` reads them. Its timestamps are those of the day
// on which it was made, and Stripe takes none that is older than 35 days: Usage moves them to the present.
// The references stay the same, so the records are for a database without them.
package examples

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"time"
)

//go:generate go run ./generate -o usage.ndjson

//go:embed usage.ndjson
var usage []byte

// Meters are the event names of the meters that the records need. One record asks for another one.
func Meters() []string {
	return []string{"api_requests", "seat_minutes", "storage_gb_hours", "tokens_used"}
}

// before is how long before now the last record ends up: clocks differ by a little.
const before = time.Minute

// Usage answers the records with their timestamps moved so that the last is a minute before now. The
// distances between them stay.
func Usage(now time.Time) (io.Reader, error) {
	lines := bytes.SplitAfter(bytes.TrimSpace(usage), []byte("\n"))
	_, last, err := timestamp(lines[len(lines)-1])
	if err != nil {
		return nil, err
	}
	shift := now.Add(-before).Truncate(time.Second).Sub(last)
	moved := make([]byte, 0, len(usage))
	for _, line := range lines {
		at, t, err := timestamp(line)
		if err != nil {
			return nil, err
		}
		moved = append(moved, line[:at]...)
		moved = t.Add(shift).UTC().AppendFormat(moved, layout)
		moved = append(moved, line[at+len(layout):]...)
	}
	return bytes.NewReader(append(moved, '\n')), nil
}

// layout is RFC 3339 in UTC with whole seconds: every timestamp has its length.
const layout = "2006-01-02T15:04:05Z"

// timestamp finds where the timestamp of line begins, and reads it.
func timestamp(line []byte) (int, time.Time, error) {
	_, after, found := bytes.Cut(line, []byte(`"timestamp":"`))
	if !found || len(after) < len(layout) {
		return 0, time.Time{}, fmt.Errorf("usage.ndjson: no timestamp in %s", line)
	}
	t, err := time.Parse(layout, string(after[:len(layout)]))
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("usage.ndjson: %w", err)
	}
	return len(line) - len(after), t, nil
}
