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

// ReadKey answers the key: stripe.key, or what stands in stripe.key_file.
func (l *Lane) ReadKey() (Secret, error) {
	s := &l.Stripe
	switch {
	case s.Key != "":
		return s.Key, nil
	case s.KeyFile == "":
		return "", errors.New("no Stripe key: set WEIR_STRIPE_KEY (or WEIR_LANES_<LANE>_KEY), stripe.key_file or stripe.key")
	}
	text, err := os.ReadFile(s.KeyFile)
	if err != nil {
		return "", fmt.Errorf("stripe.key_file: %w", err)
	}
	key := Secret(strings.TrimSpace(string(text)))
	if err := checkKey(key); err != nil {
		return "", fmt.Errorf("stripe.key_file %s: %w", s.KeyFile, err)
	}
	return key, nil
}
