package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-relay/weir/internal/config"
)

// run is the whole program. It answers the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: env}
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := a.exitCode(err)
	var reported *findingsError
	if !errors.As(err, &reported) {
		fmt.Fprintf(stderr, "weir: %v\n", err)
		if hint := explain(err); hint != "" {
			fmt.Fprintf(stderr, "→ %s\n", hint)
		}
	}
	if !a.began {
		fmt.Fprintf(stderr, "See %s --help\n", a.called(root, args))
	}
	return code
}

// called is the command that args mean, as far as they mean one.
func (a *app) called(root *cobra.Command, args []string) string {
	command, _, err := root.Find(args)
	if err != nil || command == nil {
		command = root
	}
	return command.CommandPath()
}

// The groups of weir help, in the order in which a newcomer needs them.
const (
	groupTry   = "try"
	groupSetUp = "setup"
	groupRun   = "run"
	groupLook  = "look"
	groupAct   = "act"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Relay committed usage from Postgres to Stripe meters",
		Long: `weir sees an outbox row the moment its transaction commits, sends it to Stripe as
metered usage, and writes down what happened. Never lost, never billed twice.

Exit codes:
  0  done
  1  it failed
  2  the command line or the configuration is wrong; nothing was done
  3  done, with findings: some lines were bad, some items had moved, a check failed`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			a.began = true
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddGroup(
		&cobra.Group{ID: groupTry, Title: "Try:"},
		&cobra.Group{ID: groupSetUp, Title: "Set up:"},
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupLook, Title: "Look:"},
		&cobra.Group{ID: groupAct, Title: "Act:"},
	)
	root.SetHelpCommandGroupID(groupLook)
	a.globalFlags(root.PersistentFlags())
	for group, commands := range map[string][]*cobra.Command{
		groupTry:   {a.demoCommand(), a.sandboxCommand(), a.benchCommand()},
		groupSetUp: {a.migrateCommand(), a.configCommand(), a.doctorCommand(), a.slotCommand()},
		groupRun:   {a.runCommand(), a.enqueueCommand(), a.healthcheckCommand()},
		groupLook:  {a.statusCommand(), a.listCommand(), a.showCommand(), a.versionCommand()},
		groupAct:   {a.requeueCommand(), a.recoverCommand(), a.reconcileCommand(), a.abandonCommand(), a.gcCommand()},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	return root
}

// unknownCommand refuses what follows the name of a command that only has commands of its own.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("%s has no command %q", c.CommandPath(), args[0])
	var names []string
	for _, known := range c.Commands() {
		names = append(names, known.Name())
	}
	if near := config.Nearest(args[0], names); near != "" {
		message += fmt.Sprintf("; did you mean %s?", near)
	}
	return errors.New(message)
}
