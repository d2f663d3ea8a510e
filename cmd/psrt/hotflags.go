package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/client"
)

// hotFlags say which values workers keep.
type hotFlags struct{ client.Hot }

func (f *hotFlags) register(fl *pflag.FlagSet) {
	fl.IntVar(&f.Rows, "hot-rows", 0, "rows, of those that a worker pulls most often, whose values it keeps, with --sync ssp or asp (0: none)")
	fl.IntVar(&f.Staleness, "hot-staleness", 4, "steps after which kept values are pulled anew")
}

// describe gives the job's part.
func (f *hotFlags) describe(c *cobra.Command) (client.Hot, error) {
	if f.Rows == 0 {
		if c.Flags().Changed("hot-staleness") {
			return client.Hot{}, cli.Usagef("--hot-staleness has no effect without --hot-rows: say how many rows a worker keeps")
		}
		return client.Hot{}, nil
	}
	return f.Hot, nil
}
