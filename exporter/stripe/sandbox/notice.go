package sandbox

import (
	"crypto/rand"
	"encoding/json"
	"time"
)

// notice is a thin event: what is posted names it, what is fetched by its id has the data.
type notice struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Type    string          `json:"type"`
	Live    bool            `json:"livemode"`
	Created string          `json:"created"`
	Context *string         `json:"context"`
	Reason  *struct{}       `json:"reason"`
	Related *relatedObject  `json:"related_object"`
	Data    json.RawMessage `json:"data,omitempty"`

	at time.Time // of the sandbox's clock
}

type relatedObject struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	URL  string `json:"url"`
}

// noticeLife is how long events can be fetched.
const noticeLife = 30 * 24 * time.Hour

func (w *world) notice(open *window, now time.Time) *notice {
	n := &notice{
		ID: idPrefix("evt", w.live) + rand.Text(), Object: "v2.core.event", Type: typeNoMeter,
		Live: w.live, Created: now.UTC().Format(timeV2), Data: open.data(now), at: now,
	}
	if open.meter.ID != "" {
		n.Type = typeErrorReport
		n.Related = &relatedObject{open.meter.ID, "billing.meter", "/v1/billing/meters/" + open.meter.ID}
	}
	return n
}

// thin is the notice as it is posted: without data.
func (n *notice) thin() []byte {
	short := *n
	short.Data = nil
	raw, err := json.Marshal(short)
	if err != nil {
		panic(err) // strings and bools only
	}
	return raw
}
