package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
)

// heterFlags say whether the dense layers have ranks of their own.
type heterFlags struct {
	on     bool
	ranks  int
	device string
}

func (f *heterFlags) register(fl *pflag.FlagSet) {
	fl.BoolVar(&f.on, "heter", false, "the dense layers have ranks of their own, behind the workers: workers read, have the rows and send activations")
	fl.IntVar(&f.ranks, "dense-ranks", 1, "how many they are, with --heter")
	fl.StringVar(&f.device, "dense-device", "", "where they compute, `gpu|host|so:FILE|N`, with --heter: a GPU (without one, the processor computes), the GPU's kernels as C on the processor, to try what they do, an accelerator by the table of functions in a library of yours, or the GPU of a number; without the flag the processor computes")
}

// count is the number of dense ranks.
func (f *heterFlags) count(c *cobra.Command, colocate bool) (int, error) {
	switch {
	case !f.on && c.Flags().Changed("dense-ranks"):
		return 0, cli.Usagef("--dense-ranks %d has no effect without --heter", f.ranks)
	case !f.on && f.device != "":
		return 0, cli.Usagef("--dense-device %s has no effect without --heter", f.device)
	case !f.on:
		return 0, nil
	case f.ranks < 1:
		return 0, cli.Usagef("--dense-ranks %d: must be at least 1", f.ranks)
	case colocate:
		return 0, cli.Usagef("--heter with --colocate: each process would be of every kind; start ranks as processes of their own")
	}
	var err error
	f.device, err = absolute(f.device)
	return f.ranks, err
}
