package replication

import (
	"strconv"
	"time"
)

// Values come as text. The session is set to DateStyle ISO and TimeZone UTC, so a timestamptz reads
// 2026-03-01 12:00:00.123456+00; other offsets are understood too, other styles are not.

var (
	// infinity stands for the timestamp 'infinity': an item that somebody has put off for good.
	infinity = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
	// ancient stands for '-infinity' and for all that is earlier: long since due, without being the zero time.
	ancient = time.Unix(0, 0).UTC()
)

func parseInt(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}

func parseTime(b []byte) (time.Time, bool) {
	switch string(b) {
	case "infinity":
		return infinity, true
	case "-infinity":
		return ancient, true
	}
	s := scanner{b: b}
	year := s.number(4, 6)
	s.skip('-')
	month := s.number(2, 2)
	s.skip('-')
	day := s.number(2, 2)
	s.skip(' ')
	hour := s.number(2, 2)
	s.skip(':')
	minute := s.number(2, 2)
	s.skip(':')
	second := s.number(2, 2)
	nanos := s.fraction()
	offset := s.offset()
	bc := s.bc()
	if s.bad || len(s.b) != 0 || !inRange(month, day, hour, minute, second) {
		return time.Time{}, false
	}
	if bc {
		return ancient, true
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second-offset, nanos, time.UTC)
	switch {
	case t.After(infinity):
		return infinity, true
	case t.Before(ancient):
		return ancient, true
	}
	return t, true
}

func inRange(month, day, hour, minute, second int) bool {
	return month >= 1 && month <= 12 && day >= 1 && day <= 31 && hour <= 23 && minute <= 59 && second <= 59
}

// scanner takes a text apart from its front. The first surprise sticks in bad.
type scanner struct {
	b   []byte
	bad bool
}

func (s *scanner) number(least, most int) int {
	n, i := 0, 0
	for ; i < len(s.b) && i < most && s.b[i] >= '0' && s.b[i] <= '9'; i++ {
		n = n*10 + int(s.b[i]-'0')
	}
	if i < least {
		s.bad = true
	}
	s.b = s.b[i:]
	return n
}

func (s *scanner) skip(c byte) {
	if !s.accept(c) {
		s.bad = true
	}
}

func (s *scanner) accept(c byte) bool {
	if len(s.b) == 0 || s.b[0] != c {
		return false
	}
	s.b = s.b[1:]
	return true
}

// fraction reads an optional .1 to .123456, as nanoseconds.
func (s *scanner) fraction() int {
	if !s.accept('.') {
		return 0
	}
	before := len(s.b)
	n := s.number(1, 6)
	for digits := before - len(s.b); digits < 9; digits++ {
		n *= 10
	}
	return n
}

// offset reads +hh, +hh:mm or +hh:mm:ss, as seconds east of Greenwich.
func (s *scanner) offset() int {
	sign := 1
	if s.accept('-') {
		sign = -1
	} else {
		s.skip('+')
	}
	seconds := s.number(2, 2) * 3600
	if s.accept(':') {
		seconds += s.number(2, 2) * 60
	}
	if s.accept(':') {
		seconds += s.number(2, 2)
	}
	return sign * seconds
}

func (s *scanner) bc() bool {
	if string(s.b) != " BC" {
		return false
	}
	s.b = nil
	return true
}
