package sandbox

import (
	"net/url"
	"strings"
)

// field is one decoded pair of a form, in the order in which it was sent.
type field struct{ key, value string }

// parseForm decodes application/x-www-form-urlencoded without building a map: order and repeated keys survive.
func parseForm(s string) ([]field, *apiError) {
	var fields []field
	for s != "" {
		var pair string
		pair, s, _ = strings.Cut(s, "&")
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		if err != nil {
			return nil, errInvalid("", "", "Invalid form encoding: %v", err)
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return nil, errInvalid("", "", "Invalid form encoding: %v", err)
		}
		fields = append(fields, field{key, value})
	}
	return fields, nil
}

// inner returns "k" for key "name[k]".
func inner(key, name string) (string, bool) {
	if len(key) < len(name)+2 || !strings.HasPrefix(key, name) || key[len(name)] != '[' || key[len(key)-1] != ']' {
		return "", false
	}
	return key[len(name)+1 : len(key)-1], true
}

// params is a form by name, for the endpoints that aren't hot.
type params map[string]string

// collect returns the form as params, refusing names that the endpoint doesn't know. "expand[]" is always known.
func collect(fields []field, known ...string) (params, *apiError) {
	p := make(params, len(fields))
next:
	for _, f := range fields {
		if strings.HasPrefix(f.key, "expand") {
			continue
		}
		for _, k := range known {
			if f.key == k || strings.HasSuffix(k, "[*]") && strings.HasPrefix(f.key, k[:len(k)-2]) {
				p[f.key] = f.value
				continue next
			}
		}
		return nil, errUnknownParam(f.key)
	}
	return p, nil
}

// require refuses the first of the names that is missing or empty.
func (p params) require(names ...string) *apiError {
	for _, n := range names {
		if p[n] == "" {
			return errMissing(n)
		}
	}
	return nil
}
