package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/migrations"
)

func (a *app) migrateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to weir's schema",
		Args:  unknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.migrateUpCommand(), a.migrateStatusCommand(), a.migrateDownCommand())
	return c
}

func (a *app) migrateUpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Apply what the database lacks",
		Long:  "Apply what the database lacks. Several may run it at once: one works, the others wait.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			url, err := a.url()
			if err != nil {
				return err
			}
			before, err := migrations.Status(c.Context(), url.Reveal())
			if err != nil {
				return err
			}
			if err := migrations.Up(c.Context(), url.Reveal()); err != nil {
				return err
			}
			applied := []migrations.Version{}
			for _, v := range before {
				if !v.Applied {
					v.Applied = true
					applied = append(applied, v)
				}
			}
			return a.emit(map[string]any{"applied": applied}, func(w io.Writer) {
				for _, v := range applied {
					fmt.Fprintf(w, "applied %s\n", v.Name)
				}
				if len(applied) == 0 {
					fmt.Fprintln(w, "The schema is up to date.")
				}
			})
		},
	}
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List the migrations and whether the database has them",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			url, err := a.url()
			if err != nil {
				return err
			}
			versions, err := migrations.Status(c.Context(), url.Reveal())
			if err != nil {
				return err
			}
			return a.emit(versions, func(w io.Writer) {
				var rows [][]string
				for _, v := range versions {
					state := "missing"
					if v.Applied {
						state = "applied"
					}
					rows = append(rows, []string{fmt.Sprint(v.Number), v.Name, state})
				}
				table(w, []string{"VERSION", "NAME", "STATE"}, rows)
			})
		},
	}
}

func (a *app) migrateDownCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "down",
		Short: "Undo the newest migration, and lose what its tables hold",
		Long: `Undo the newest migration. What its tables hold is gone: items that were not sent yet are
then never sent. Without --yes it only says what it would undo.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			url, err := a.url()
			if err != nil {
				return err
			}
			versions, err := migrations.Status(c.Context(), url.Reveal())
			if err != nil {
				return err
			}
			var newest *migrations.Version
			for i := range versions {
				if versions[i].Applied {
					newest = &versions[i]
				}
			}
			if yes && newest != nil {
				if err := migrations.Down(c.Context(), url.Reveal()); err != nil {
					return err
				}
			}
			return a.emit(map[string]any{"undone": yes && newest != nil, "migration": newest}, func(w io.Writer) {
				switch {
				case newest == nil:
					fmt.Fprintln(w, "No migration is applied: there is nothing to undo.")
				case yes:
					fmt.Fprintf(w, "undone %s\n", newest.Name)
					if newest.Number == 1 {
						fmt.Fprintln(w, "A slot, where there is one, stays and makes the server keep its log: weir slot drop")
					}
				default:
					fmt.Fprintf(w, "Would undo %s and drop what its tables hold, in %v.\nNothing was changed. Add --yes to do it.\n", newest.Name, url)
				}
			})
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}
