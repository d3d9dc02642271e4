package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/internal/config"
)

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check, show and explain the settings",
		Args:  unknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.configCheckCommand(), a.configShowCommand(), a.configReferenceCommand())
	return c
}

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the settings without contacting anything",
		Long:  "Check that the settings can be read, fit together, and are enough to run. It contacts nothing: see weir doctor.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.config()
			if err != nil {
				return err
			}
			if _, err := a.url(); err != nil {
				return err
			}
			for name, lane := range c.Lanes {
				if lane.Type != "stripe" {
					continue
				}
				if _, err := a.stripeExporter(name, lane); err != nil {
					return err
				}
			}
			warnings := append([]string{}, c.Warnings()...)
			return a.emit(map[string]any{"file": c.File(), "warnings": warnings}, func(w io.Writer) {
				for _, warning := range warnings {
					fmt.Fprintf(w, "warning: %s\n", warning)
				}
				from := "no file"
				if c.File() != "" {
					from = c.File()
				}
				fmt.Fprintf(w, "The settings are right (%s, environment and flags; %s).\n", from, plural(len(warnings), "warning"))
			})
		},
	}
}

func (a *app) configShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the settings in effect and where each comes from",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.config()
			if err != nil {
				return err
			}
			settings := c.Settings()
			return a.emit(settings, func(w io.Writer) {
				var rows [][]string
				for _, s := range settings {
					rows = append(rows, []string{s.Path, s.Value, s.Origin})
				}
				table(w, []string{"KEY", "VALUE", "FROM"}, rows)
			})
		},
	}
}

func (a *app) configReferenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reference",
		Short: "Print all settings and what they mean, in Markdown",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, config.Reference())
			return err
		},
	}
}
