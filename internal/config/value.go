package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes.
type Size int64

// units of Size, largest first. Binary only: a limit that is 7 % off from what was meant would be noticed late.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseSize reads sizes such as 512MiB; a number alone is bytes.
func ParseSize(s string) (Size, error) {
	number, factor := s, int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is not a size: write a whole number with B, KiB, MiB, GiB or TiB, such as 512MiB", s)
	}
	return Size(n * factor), nil
}

// String writes s in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return "0"
}

// ParseDuration reads Go's durations, such as 1h30m, and whole days, such as 40d.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 64)
		if err == nil && n >= 0 && n < math.MaxInt64/int64(24*time.Hour) {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write a number with ms, s, m, h or d, such as 30s or 23h", s)
	}
	return d, nil
}

// formatDuration writes whole hours, minutes and seconds without the zeros of Duration.String.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Words is a list of words: in YAML a list, elsewhere with commas between them.
type Words []string

// ParseWords reads words such as "model, region".
func ParseWords(s string) (Words, error) {
	var out Words
	if s == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		if word == "" || slices.Contains(out, word) {
			return nil, fmt.Errorf("%q is not a list: write each word once, with commas between them", s)
		}
		out = append(out, word)
	}
	return out, nil
}

// set reads text into a leaf.
func (f *field) set(text string) error {
	switch p := f.value.Addr().Interface().(type) {
	case *time.Duration:
		d, err := ParseDuration(text)
		*p = d
		return err
	case *Size:
		s, err := ParseSize(text)
		*p = s
		return err
	case *Words:
		words, err := ParseWords(text)
		*p = words
		return err
	case *time.Time:
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("%q is not a time: write it as in 2026-01-01T00:00:00Z", text)
		}
		*p = at
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*p = b
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*p = n
	case *float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Errorf("%q is not a number", text)
		}
		*p = n
	default:
		if len(f.oneOf) > 0 && !slices.Contains(f.oneOf, text) {
			return fmt.Errorf("%q is not one of %s%s", text, strings.Join(f.oneOf, ", "), didYouMean(text, f.oneOf))
		}
		f.value.SetString(text)
	}
	return nil
}

// text is the leaf's value as set would read it; secrets are redacted.
func (f *field) text() string {
	switch v := f.value.Interface().(type) {
	case time.Duration:
		return formatDuration(v)
	case Words:
		return strings.Join(v, ", ")
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.Format(time.RFC3339)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// isLeaf reports whether a field holds a value rather than more fields.
func isLeaf(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t.Kind() != reflect.Struct && t.Kind() != reflect.Map
}
