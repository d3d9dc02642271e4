package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/migrations"
)

// build says which program this is.
type build struct {
	Version    string `json:"version"`
	Revision   string `json:"revision,omitempty"`
	Modified   bool   `json:"modified,omitempty"` // built from a tree with changes
	Go         string `json:"go"`
	Migrations int64  `json:"migrations"` // the newest one that it brings
}

func readBuild() build {
	b := build{Version: "unknown", Migrations: migrations.Latest()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version, b.Go = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which weir this is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			return a.emit(b, func(w io.Writer) {
				fmt.Fprintf(w, "weir %s\n", b.Version)
				if b.Revision != "" {
					changed := ""
					if b.Modified {
						changed = " (with changes)"
					}
					fmt.Fprintf(w, "revision   %s%s\n", b.Revision, changed)
				}
				fmt.Fprintf(w, "go         %s\nmigrations %d\n", b.Go, b.Migrations)
			})
		},
	}
}
