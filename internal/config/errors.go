package config

import (
	"fmt"
	"strings"
)

// Origin is where a value comes from.
type Origin struct {
	Kind  string // default, file, env or flag
	Place string // file:line, the variable, the flag; "" for default
}

func (o Origin) String() string {
	switch o.Kind {
	case "":
		return "default"
	case "file":
		return o.Place
	}
	return o.Kind + " " + o.Place
}

// Error is one thing that is wrong with the settings. Load joins all that there are; test with errors.As.
type Error struct {
	Origin  Origin
	Path    string // of the setting, "" where it is about the file as a whole
	Problem string // what is wrong, and what is allowed
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Origin.Kind != "" {
		fmt.Fprintf(&b, "%v: ", e.Origin)
	}
	if e.Path != "" {
		fmt.Fprintf(&b, "%s: ", e.Path)
	}
	return b.String() + e.Problem
}

// didYouMean names the candidate nearest to got, or all of them where none is near and they are few.
func didYouMean(got string, candidates []string) string {
	if near := Nearest(got, candidates); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// Nearest is the candidate that got is most probably a misspelling of, "" where none is near.
func Nearest(got string, candidates []string) string {
	best, least := "", len(got)/3+2
	for _, c := range candidates {
		if d := distance(strings.ToLower(got), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is how many characters have to be changed, inserted, removed or swapped with their neighbour to make b of a.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := range s {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(t)]
}
