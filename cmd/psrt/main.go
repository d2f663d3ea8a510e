// Command psrt trains models through parameter servers and works with what
// they leave behind. It only reads flags: what it does is in the packages of
// sched and tiers.
package main

import (
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
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newTrain(), newEval(), newPredict(), newGen(), newVersion(), newMan())
	root.SetFlagErrorFunc(cli.FlagError)
	for _, c := range root.Commands() {
		if c.Args == nil {
			c.Args = noArgs
		}
	}
	root.SuggestionsMinimumDistance = 2
	return root
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.Usagef("%s takes no argument %q: files are given with flags, see psrt %s --help", c.Name(), args[0], c.Name())
	}
	return nil
}
