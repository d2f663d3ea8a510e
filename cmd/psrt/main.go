// Command psrt trains models through parameter servers and works with what
// they leave behind. It only reads flags: what it does is in the packages of
// sched and tiers.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
)

// Set by the linker (see the Makefile).
var (
	version = "dev"
	commit  = "unknown"
)

func main() {
	cli.MakeRoom()
	root := newRoot()
	root.SetArgs(cli.JoinJSON(os.Args[1:]))
	if code := cli.Exit(os.Stderr, "psrt", root.Execute()); code != 0 {
		os.Exit(code)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "psrt",
		Short:         "A parameter-server runtime for recommendation and click-through models",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		// No command has one of its own, which would take its place.
		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			if err := cli.Given(c); err != nil {
				return err
			}
			return checkPaths(c, args)
		},
	}
	root.AddCommand(newTrain(), newServe(), newServer(), newStatus(), newTop(), newEval(), newPredict(), newExport(), newImport(), newCheckpoint(), newGen(), newAudit(), newDoctor(), newPlan(), newVersion(), newMan())
	root.SetFlagErrorFunc(cli.FlagError)
	cli.DecimalFlags(root)
	for _, c := range root.Commands() {
		if c.Args == nil {
			c.Args = noArgs
		}
	}
	return root
}

// unknownCommand names the command that was probably meant: an argument that
// the root itself gets is none of its commands.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := ""
	if best := cli.Nearest(args[0], names); best != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", best)
	}
	return cli.Usagef("unknown command %q%s; see psrt --help", args[0], hint)
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.Usagef("%s takes no argument %q: files are given with flags, see psrt %s --help", c.Name(), args[0], c.Name())
	}
	return nil
}
