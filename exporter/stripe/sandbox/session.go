package sandbox

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"
)

const sessionLife = 15 * time.Minute

// sessions are the tokens that open the stream.
type sessions struct {
	mu     sync.Mutex
	tokens map[string]session
}

type session struct {
	scope
	expires time.Time // of the sandbox's clock
}

func (s *sessions) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = nil
}

// open makes a token and forgets those that have expired.
func (s *sessions) open(sc scope, now time.Time) (token string, opened session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = map[string]session{}
	}
	for t, old := range s.tokens {
		if now.After(old.expires.Add(time.Hour)) {
			delete(s.tokens, t)
		}
	}
	token = idPrefix("token", sc.live) + rand.Text()
	opened = session{sc, now.Add(sessionLife)}
	s.tokens[token] = opened
	return token, opened
}

func (s *Sandbox) authenticateSession(r *http.Request) (*world, *apiError) {
	s.sessions.mu.Lock()
	opened, ok := s.sessions.tokens[bearer(r)]
	s.sessions.mu.Unlock()
	switch {
	case bearer(r) == "":
		return nil, errNoKey()
	case !ok, !s.Now().Before(opened.expires):
		return nil, &apiError{
			status: http.StatusUnauthorized, kind: typeSessionExpired, code: "billing_meter_event_session_expired", validation: true,
			message: "The temporary session token has expired or is unknown. Create another meter event session.",
		}
	}
	return s.world(opened.scope), nil
}

// createSession serves POST /v2/billing/meter_event_session.
func createSession(c *call) answer {
	if c.world.cfg.Behaviour.StreamLiveOnly && !c.world.live {
		return errRefused("Meter event sessions are available in live mode only.").answer()
	}
	now := c.sandbox.Now()
	token, opened := c.sandbox.sessions.open(c.world.scope, now)
	return object(struct {
		Object              string `json:"object"`
		ID                  string `json:"id"`
		AuthenticationToken string `json:"authentication_token"`
		Created             string `json:"created"`
		ExpiresAt           string `json:"expires_at"`
		Livemode            bool   `json:"livemode"`
	}{
		"v2.billing.meter_event_session", idPrefix("bmes", c.world.live) + rand.Text(), token,
		now.UTC().Format(timeV2), opened.expires.UTC().Format(timeV2), c.world.live,
	})
}
