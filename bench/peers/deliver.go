package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// deliver is the work that a peer does for an item.
type deliver func(context.Context, item) error

// eventsPath is where meter events go.
const eventsPath = "/v1/billing/meter_events"

// postTo sends items to the receiver at url.
func postTo(url string) deliver {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 2000 // none is closed while it may be needed
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return func(ctx context.Context, it item) error {
		body := strings.NewReader(it.form().Encode())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+eventsPath, body)
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("send item %d: %s", it.Number, answer.Status)
		}
		return nil
	}
}

// nothing takes items and does nothing with them. Only its first call goes to post, whose receiver learns
// from it when the work began.
func nothing(post deliver) deliver {
	var once sync.Once
	return func(ctx context.Context, it item) (err error) {
		once.Do(func() { err = post(ctx, it) })
		return err
	}
}
