package migrations

import (
	"strings"
	"testing"
)

func TestSuitable(t *testing.T) {
	for _, tt := range []struct {
		version  int
		encoding string
		problem  string // "" is none
	}{
		{150000, "UTF8", ""},
		{180002, "UTF8", ""},
		{140012, "UTF8", "Postgres 14; weir needs 15 or newer"},
		{90624, "UTF8", "Postgres 9; weir needs 15 or newer"},
		{170001, "SQL_ASCII", "encoding is SQL_ASCII"},
	} {
		err := suitable(tt.version, tt.encoding)
		if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%d %s: want %q, got %v", tt.version, tt.encoding, tt.problem, err)
		}
	}
}
