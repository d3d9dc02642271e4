package stripe

import (
	"encoding/json"
	"strings"

	"github.com/shopspring/decimal"
)

const (
	maxDigits   = 15 // before and behind the point together; Stripe refuses more
	maxDecimals = 12 // what an invoice's quantity holds

	// maxLiteral bounds the spelling of a value, and with it the work of reading it. Longer ones have too
	// many digits, or zeros that nobody needs.
	maxLiteral = 64
)

// parseValue reads a JSON number, or a string that holds one, and answers it as a plain decimal: no
// exponent, no trailing zeros. What it answers is exactly what it read.
func parseValue(raw json.RawMessage) (string, *problem) {
	if raw == nil {
		return "", problemf("no_value", "value is missing: need a number, or a string that holds one")
	}
	var literal json.Number // takes both forms, the string only with a number's grammar in it
	if err := json.Unmarshal(raw, &literal); err != nil || literal == "" {
		return "", problemf("invalid_value", "value is not a number: %s", clip(raw))
	}
	tooLong := problemf("invalid_value", "value has more than %d digits or %d decimals: %s",
		maxDigits, maxDecimals, clip(raw))
	if len(literal) > maxLiteral {
		return "", tooLong
	}
	d, err := decimal.NewFromString(string(literal))
	if err != nil {
		return "", problemf("invalid_value", "value can't be read: %s", clip(raw))
	}
	if d.IsZero() {
		return "0", nil
	}
	// The exponent is bounded before the number is spelt out: 1e999999999 is a short literal.
	if e := int(d.Exponent()); e > maxDigits || e < -2*maxLiteral {
		return "", tooLong
	}
	plain := d.String()
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(plain, "-"), ".")
	if len(fraction) > maxDecimals || len(strings.TrimLeft(whole+fraction, "0")) > maxDigits {
		return "", tooLong
	}
	return plain, nil
}
