package postgres

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestInstallWithApt(t *testing.T) {
	tests := map[string]struct {
		apt    string // body of the fake apt-get
		log    string
		failed bool
	}{
		"works": {
			apt: `echo "$1 under: $(cat "$CONFIG")"`,
			log: "update under: create_main_cluster = false\ninstall under: create_main_cluster = false\n",
		},
		"no network": {apt: "echo offline; exit 100", log: "offline\n", failed: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			config := filepath.Join(dir, "createcluster.d", "weir.conf")
			script(t, dir, "apt-get", tt.apt)
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			t.Setenv("CONFIG", config)
			var log bytes.Buffer
			if err := installWithApt(t.Context(), &log, config); (err != nil) != tt.failed {
				t.Errorf("failed: want %v, got %v", tt.failed, err)
			}
			if log.String() != tt.log {
				t.Errorf("log: want %q, got %q", tt.log, log.String())
			}
			if _, err := os.Stat(config); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s was left behind: %v", config, err)
			}
		})
	}
}
