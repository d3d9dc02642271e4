package sandbox

import (
	"strconv"
	"time"
)

// event is one usage event. Millions of them must fit in memory, hence the narrow fields and rare.
type event struct {
	identifier    string
	series        *series // nil while no request with this identifier was accepted
	value         string  // as sent
	timestamp     int64   // seconds
	acceptedAt    int64   // nanoseconds of the sandbox's clock
	firstReceived int64   // nanoseconds of the wall clock
	received      uint32  // requests that carried the identifier, refused ones included
	state         eventState
	cancelled     bool
	rare          *rare // nil for most
}

// rare is what few events have.
type rare struct {
	extra    string // the payload's members beside customer and value, as JSON, each with a comma behind it
	rejected string // code of the asynchronous refusal
	earlier  *event // the event that held the identifier before, if its window had passed
}

// before is the event that held the identifier before this one.
func (e *event) before() *event {
	if e.rare == nil {
		return nil
	}
	return e.rare.earlier
}

// stands says that the event counts as usage.
func (e *event) stands() bool { return e.state == billed && !e.cancelled }

// again says that an earlier event under the same identifier counts as usage too.
func (e *event) again() bool {
	for old := e.before(); old != nil; old = old.before() {
		if old.stands() {
			return true
		}
	}
	return false
}

// unusual makes room for what few events have.
func (e *event) unusual() *rare {
	if e.rare == nil {
		e.rare = &rare{}
	}
	return e.rare
}

type eventState uint8

const (
	seen     eventState = iota // a request named it, none was accepted yet
	billed                     // counts as usage, unless cancelled
	rejected                   // accepted with a 200, refused afterwards
)

// series is the events of one customer on one meter, in the order in which they were accepted.
type series struct {
	meter    *meter
	customer string
	events   []*event
}

type seriesKey struct {
	meter    *meter
	customer string
}

func appendEventV1(b []byte, e *event, live bool) []byte {
	b = append(b, `{"object":"billing.meter_event","created":`...)
	b = strconv.AppendInt(b, e.acceptedAt/int64(time.Second), 10)
	b = appendEventBody(b, e, live)
	b = append(b, `,"timestamp":`...)
	return append(strconv.AppendInt(b, e.timestamp, 10), '}')
}

func appendEventV2(b []byte, e *event, live bool) []byte {
	b = append(b, `{"object":"v2.billing.meter_event","created":"`...)
	b = time.Unix(0, e.acceptedAt).UTC().AppendFormat(b, timeV2)
	b = append(b, '"')
	b = appendEventBody(b, e, live)
	b = append(b, `,"timestamp":"`...)
	return append(time.Unix(e.timestamp, 0).UTC().AppendFormat(b, timeV2), '"', '}')
}

// timeV2 is how the v2 API writes times.
const timeV2 = "2006-01-02T15:04:05.000Z"

func appendEventBody(b []byte, e *event, live bool) []byte {
	b = appendField(append(b, ','), "event_name", e.series.meter.EventName)
	b = appendField(append(b, ','), "identifier", e.identifier)
	b = append(b, `,"livemode":`...)
	b = strconv.AppendBool(b, live)
	b = append(b, `,"payload":{`...)
	start := len(b)
	if e.series.customer != "" {
		b = append(appendString(b, e.series.meter.CustomerKey), ':')
		b = append(appendString(b, e.series.customer), ',')
	}
	if e.value != "" {
		b = append(appendString(b, e.series.meter.ValueKey), ':')
		b = append(appendString(b, e.value), ',')
	}
	if e.rare != nil {
		b = append(b, e.rare.extra...)
	}
	if len(b) > start && b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, '}')
}
