package sandbox

import (
	"fmt"
	"net/http"
	"strings"
)

// DefaultAccount owns a key that names no account.
const DefaultAccount = "acct_weir"

// Key is an API key. Its prefix decides mode and kind: sk_live_, sk_test_, rk_live_, rk_test_.
type Key struct {
	Secret  string `json:"secret"`
	Account string `json:"account,omitempty"` // Defaults to DefaultAccount.
	// Allow lists the path prefixes that a restricted key (rk_…) may call. Secret keys may call everything.
	Allow []string `json:"allow,omitempty"`
}

func (k Key) restricted() bool { return strings.HasPrefix(k.Secret, "rk_") }
func (k Key) live() bool       { return strings.HasPrefix(k.Secret[len("sk_"):], "live_") }

func (k Key) validate() error {
	for _, prefix := range []string{"sk_live_", "sk_test_", "rk_live_", "rk_test_"} {
		if strings.HasPrefix(k.Secret, prefix) && len(k.Secret) > len(prefix) {
			return nil
		}
	}
	return fmt.Errorf("need a prefix sk_live_, sk_test_, rk_live_ or rk_test_ and something behind it")
}

func (k Key) allows(path string) bool {
	if !k.restricted() {
		return true
	}
	for _, prefix := range k.Allow {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// authenticate finds the world that a request speaks to: the key's account, or the one in Stripe-Account.
func (s *Sandbox) authenticate(r *http.Request) (*world, *apiError) {
	secret := bearer(r)
	if secret == "" {
		return nil, errNoKey()
	}
	key, ok := s.keys[secret]
	if !ok {
		return nil, errBadKey(secret)
	}
	if !key.allows(r.URL.Path) {
		return nil, errForbidden(secret)
	}
	account := key.Account
	if connected := r.Header.Get("Stripe-Account"); connected != "" && connected != account {
		if !s.connects(connected) {
			return nil, errNoAccess(secret, connected)
		}
		return s.world(scope{connected, key.live()}), nil
	}
	return s.world(scope{account, key.live()}), nil
}

func (s *Sandbox) connects(account string) bool {
	if len(s.cfg.Connected) == 0 {
		return strings.HasPrefix(account, "acct_")
	}
	for _, a := range s.cfg.Connected {
		if a == account {
			return true
		}
	}
	return false
}

// bearer reads the key from either of the two forms that Stripe takes: Bearer, or Basic with the key as user name.
func bearer(r *http.Request) string {
	header := r.Header.Get("Authorization")
	if len(header) > 7 && strings.EqualFold(header[:7], "bearer ") {
		return strings.TrimSpace(header[7:])
	}
	user, _, _ := r.BasicAuth()
	return user
}

// redact shows a key as Stripe's messages do: the prefix, asterisks, the last four characters.
func redact(secret string) string {
	visible := len("sk_test_")
	if len(secret) <= visible+4 {
		visible = 0
	}
	tail := max(visible, len(secret)-4)
	return secret[:visible] + strings.Repeat("*", tail-visible) + secret[tail:]
}
