package stripe

import (
	"context"
	"sync"
	"time"

	sdk "github.com/stripe/stripe-go/v82"
)

// sessionExpired is the code of the 401 that asks for another session.
const sessionExpired = "billing_meter_event_session_expired"

// sessions keeps the token that opens the stream. Stripe gives one for 15 minutes.
//
// The token's life is measured from before it was asked for, by this machine's clock: when it ends by Stripe's isn't
// compared with it.
type sessions struct {
	e *Exporter

	mu      sync.Mutex // held while one is asked for: the others wait for it
	current string     // "" where there is none
	renew   time.Time  // current is good until then
}

// renewEarly is what of a token's life is left alone, so that none expires on its way.
const renewEarly = time.Minute

// token answers a token that is good for a while yet, or the answer that didn't give one.
func (s *sessions) token(ctx context.Context) (string, *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.e.now()
	if s.current != "" && now.Before(s.renew) {
		return s.current, nil
	}
	token, life, a := s.e.openSession(ctx)
	if !a.taken {
		return "", a
	}
	if a.live != (s.e.mode == Live) {
		s.e.alarm(a)
		return "", a
	}
	s.current, s.renew = token, now.Add(max(life-renewEarly, life/2))
	return token, nil
}

// drop forgets a token that Stripe no longer takes.
func (s *sessions) drop(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == token {
		s.current = ""
	}
}

// openSession asks for a session.
func (e *Exporter) openSession(ctx context.Context) (token string, life time.Duration, a *answer) {
	a = e.ask(ctx, request{kind: opening}, func(ctx context.Context) (receipt, error) {
		params := &sdk.V2BillingMeterEventSessionCreateParams{}
		if e.cfg.Connect {
			params.SetStripeAccount(e.cfg.Account)
		}
		made, err := e.client.V2BillingMeterEventSessions.Create(ctx, params)
		if err != nil {
			return receipt{}, err
		}
		token, life = made.AuthenticationToken, made.ExpiresAt.Sub(made.Created)
		return receipt{token != "" && life > 0, made.Livemode}, nil
	})
	return token, life, a
}
