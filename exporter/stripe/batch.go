package stripe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	sdk "github.com/stripe/stripe-go/v82"
)

// The stream's requests are made here and not by the SDK: its errors of v2 tell no HTTP status, it wants a client for
// each session, and its reflection costs more than everything else that is done for a batch.

const (
	streamHost = sdk.MeterEventsURL
	streamPath = "/v2/billing/meter_event_stream"
)

// encode is the body of a request with the events of the batch.
func encode(batch []member) []byte {
	b := make([]byte, 0, len(batch)*288+16)
	b = append(b, `{"events":[`...)
	for i, m := range batch {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"event_name":`...)
		b = appendJSON(b, m.event.meter)
		b = append(b, `,"identifier":`...)
		b = appendJSON(b, m.item.Identifier())
		b = append(b, `,"payload":{`...)
		b = append(appendJSON(b, m.event.keys.CustomerKey), ':')
		b = append(appendJSON(b, m.event.customer), ',')
		b = append(appendJSON(b, m.event.keys.ValueKey), ':')
		b = appendJSON(b, m.event.value)
		b = m.event.appendDimensions(b)
		b = append(b, `},"timestamp":"`...)
		b = time.Unix(m.event.timestamp, 0).UTC().AppendFormat(b, time.RFC3339)
		b = append(b, `"}`...)
	}
	return append(b, `]}`...)
}

// appendDimensions appends the dimensions in the order of their keys: the same batch is the same bytes.
func (e *event) appendDimensions(b []byte) []byte {
	if len(e.dimensions) == 0 {
		return b
	}
	keys := make([]string, 0, len(e.dimensions))
	for key := range e.dimensions {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		b = append(appendJSON(append(b, ','), key), ':')
		b = appendJSON(b, e.dimensions[key])
	}
	return b
}

// appendJSON appends a string. Plain ASCII, nearly every one here, is copied as it stands.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always marshals
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// newPost makes the request of a batch.
func newPost(ctx context.Context, url, token string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "weir_batch_"+hex.EncodeToString(sum[:]))
	r.Header.Set("Stripe-Version", sdk.APIVersion)
	r.Header.Set("User-Agent", "weir")
	return r, nil
}

// readEmpty reads the answer to a batch: nil for the empty object that says that it was received, a *complaint where
// Stripe says why it wasn't.
func readEmpty(response *http.Response) error {
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var body struct {
		Error *struct{ Code, Type, Message string }
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return fmt.Errorf("the body isn't JSON: %q", clip(text))
	}
	switch {
	case response.StatusCode < 400 && body.Error == nil && bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		return nil
	case response.StatusCode >= 400 && body.Error != nil:
		return &complaint{body.Error.Type, body.Error.Code, body.Error.Message}
	}
	return errors.New("the body isn't an answer of Stripe's")
}
