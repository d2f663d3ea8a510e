// Command pslab runs commands and tests where there are two RDMA devices: on
// this machine if it has some, else in a virtual machine with soft-RoCE.
//
//	pslab run -- bin/psbench lat --transport verbs
//	pslab test -race ./rdma/verbs
//	go test -exec "$PWD/bin/pslab exec" ./rdma/verbs
package main

import (
	"os"

	"github.com/spf13/cobra"

	"psrt/bench/lab/guest"
	"psrt/cmd/internal/cli"
)

func main() {
	os.Exit(cli.Exit(os.Stderr, "pslab", newRoot().Execute()))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "pslab",
		Short:         "Runs commands and tests where there are two RDMA devices",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newRun(), newExec(), newTest(), newGuest())
	root.SetFlagErrorFunc(cli.FlagError)
	cli.DecimalFlags(root)
	return root
}

// newGuest is what this program does inside the machine.
func newGuest() *cobra.Command {
	return &cobra.Command{
		Use: guest.AgentCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if os.Getpid() == 1 {
				guest.Init()
			}
			return guest.Agent()
		},
	}
}
