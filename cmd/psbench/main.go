// Command psbench measures what the runtime is made of, each beside the limit
// that the machine itself sets. It only reads flags: the measuring is in the
// packages of bench.
package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
)

// Set by the linker (see the Makefile).
var (
	version = "dev"
	commit  = "unknown"
)

// exitSlower: --compare found a row that is slower.
const exitSlower = 3

func main() {
	root := newRoot()
	root.SetArgs(cli.JoinJSON(os.Args[1:], "--csv"))
	os.Exit(cli.Exit(os.Stderr, "psbench", root.Execute()))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "psbench SUITE",
		Short:         "Benchmarks, each beside the limit of the machine it runs on",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          oneSuite,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		// No command has one of its own, which would take its place.
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return cli.Given(c) },
	}
	root.AddCommand(newLatency(), newBandwidth(), newSparse("pull"), newSparse("push"), newFanIn(), newAllReduce(), newChain(), newTable(), newSSD(), newHBM(), newLayers(), newAhead(), newPipeline(), newWhole(), newRecover(), newCodec(), newQualify(), newStart(), newVersion(), newPeer(), newSparseServer(), newDenseServer(), newFanInPart(), newChainPart(), newPipelinePart(), newWholePart(), newAllReduceRank(), newStartPart())
	complete(root)
	root.SetFlagErrorFunc(cli.FlagError)
	cli.DecimalFlags(root)
	return root
}

// oneSuite refuses what is no suite, with the nearest that is.
func oneSuite(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.RunE != nil && sub.Flags().Lookup("tolerance") != nil { // not cobra's own
			names = append(names, sub.Name())
		}
	}
	hint := ""
	if best := cli.Nearest(args[0], names); best != "" {
		hint = " (did you mean " + best + "?)"
	}
	return cli.Usagef("unknown suite %q%s; there are %s", args[0], hint, strings.Join(names, ", "))
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.Usagef("%s takes no argument %q; see %s --help", c.Name(), args[0], c.CommandPath())
	}
	return nil
}
