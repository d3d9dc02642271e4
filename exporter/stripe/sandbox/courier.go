package sandbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// courier brings thin events to webhooks, again and again until they answer 2xx or three days have passed.
type courier struct {
	mu    sync.Mutex
	queue []*letter
}

type letter struct {
	to       Webhook
	id       string // of the event
	payload  []byte
	posted   time.Time // of the sandbox's clock, like due
	due      time.Time
	attempts int
}

const (
	letterLife    = 3 * 24 * time.Hour
	letterBackoff = time.Second // doubles with every attempt
	letterMaxWait = time.Hour
	letterTimeout = 10 * time.Second
)

func (c *courier) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = nil
}

func (c *courier) post(hooks []Webhook, n *notice, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range hooks {
		c.queue = append(c.queue, &letter{to: h, id: n.ID, payload: n.thin(), posted: now, due: now})
	}
}

// deliver sends what is due (everything if force) once and returns what went wrong, joined.
func (c *courier) deliver(ctx context.Context, s *Sandbox, force bool) error {
	now := s.Now()
	c.mu.Lock()
	var batch, later []*letter
	for _, l := range c.queue {
		if force || !now.Before(l.due) {
			batch = append(batch, l)
		} else {
			later = append(later, l)
		}
	}
	c.queue = later
	c.mu.Unlock()

	var errs []error
	for _, l := range batch {
		err := l.send(ctx)
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("webhook %s: event %s: %w", l.to.URL, l.id, err))
		l.attempts++
		l.due = now.Add(min(letterBackoff<<min(l.attempts-1, 20), letterMaxWait))
		if l.due.Sub(l.posted) > letterLife {
			s.cfg.Logger.Error("webhook event given up", "url", l.to.URL, "event", l.id, "attempts", l.attempts, "error", err)
			continue
		}
		s.cfg.Logger.Warn("webhook event not delivered, will be repeated", "url", l.to.URL, "event", l.id, "error", err)
		c.mu.Lock()
		c.queue = append(c.queue, l)
		c.mu.Unlock()
	}
	return errors.Join(errs...)
}

func (l *letter) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, letterTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.to.URL, bytes.NewReader(l.payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)")
	req.Header.Set("Stripe-Signature", sign(time.Now(), l.payload, l.to.Secret))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body) //nolint:errcheck // only so that the connection can be used again
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("answered %s, need 2xx", resp.Status)
	}
	return nil
}

// sign makes a Stripe-Signature header. Its time is the wall clock's even when the sandbox's has been moved:
// receivers compare it with their own.
func sign(at time.Time, payload []byte, secret string) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(payload)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Publish closes every open error report now and delivers all webhook events that wait. It returns the
// deliveries that went wrong; they stay queued.
func (s *Sandbox) Publish(ctx context.Context) error {
	s.closeWindows(true)
	return s.courier.deliver(ctx, s, true)
}
