package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// keyShape is what Stripe's secret and restricted keys look like.
var keyShape = regexp.MustCompile(`^(sk|rk)_(live|test)_\w+$`)

// Live reports whether s is a key of live mode.
func (s Secret) Live() bool {
	return strings.HasPrefix(string(s), "sk_live_") || strings.HasPrefix(string(s), "rk_live_")
}

func checkKey(s Secret) error {
	if strings.HasPrefix(string(s), "pk_") {
		return errors.New("is a publishable key, which may not report usage: use a secret key (sk_…), or better a restricted one (rk_…)")
	}
	if !keyShape.MatchString(string(s)) {
		return fmt.Errorf("%v is no key: need one that begins with sk_live_, sk_test_, rk_live_ or rk_test_", s)
	}
	return nil
}

// webhookShape is what the signing secrets of event destinations look like.
var webhookShape = regexp.MustCompile(`^whsec_[A-Za-z0-9+/=_-]+$`)

func checkWebhookSecret(s Secret) error {
	if !webhookShape.MatchString(string(s)) {
		return fmt.Errorf("%v is no signing secret: need the one of the event destination, which begins with whsec_", s)
	}
	return nil
}

// ReadKey answers the key: stripe.key, or what stands in stripe.key_file.
func (l *Lane) ReadKey() (Secret, error) {
	s := &l.Stripe
	if s.Key == "" && s.KeyFile == "" {
		return "", errors.New("no Stripe key: set WEIR_STRIPE_KEY (or WEIR_LANES_<LANE>_KEY), stripe.key_file or stripe.key")
	}
	return secret(s.Key, "stripe.key_file", s.KeyFile, checkKey)
}

// ReadWebhookSecret answers the signing secret: stripe.webhook_secret, or what stands in stripe.webhook_secret_file, or
// nothing where neither is set.
func (l *Lane) ReadWebhookSecret() (Secret, error) {
	s := &l.Stripe
	return secret(s.WebhookSecret, "stripe.webhook_secret_file", s.WebhookSecretFile, checkWebhookSecret)
}

// secret answers given, or else what stands in the file that setting names.
func secret(given Secret, setting, file string, check func(Secret) error) (Secret, error) {
	if given != "" || file == "" {
		return given, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", setting, err)
	}
	found := Secret(strings.TrimSpace(string(text)))
	if err := check(found); err != nil {
		return "", fmt.Errorf("%s %s: %w", setting, file, err)
	}
	return found, nil
}
