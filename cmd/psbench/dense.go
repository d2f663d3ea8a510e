package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/bench/child"
	"psrt/bench/dense"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

// denseServer is the hidden command that is the other process.
const denseServer = "dense-server"

// denseFlags turn psbench push to dense vectors.
type denseFlags struct {
	on      bool
	bytes   cli.Bytes
	workers []int
	sources int
}

func (d *denseFlags) add(fl *pflag.FlagSet) {
	d.bytes = 4 << 20
	fl.BoolVar(&d.on, "dense", false, "push dense vectors instead, and sum them")
	fl.Var(&d.bytes, "vector", "length of a dense vector (with --dense)")
	fl.IntSliceVar(&d.workers, "workers", []int{1, 8}, "workers that push together, each number in turn (with --dense)")
	fl.IntVar(&d.sources, "sources", 8, "sources of the sums without a server (with --dense)")
}

func (o *options) runDense(ctx context.Context, d *denseFlags, steps, rounds int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := o.checked(); err != nil {
		return err
	}
	cfg := dense.Config{Transport: o.transport.Value, Bytes: int(d.bytes), Workers: d.workers, Sources: d.sources, Steps: steps,
		Rounds: rounds, Seed: o.seed, Child: child.Command{Path: self, Args: []string{denseServer}}}
	return o.measure(cfg.Check(), func() (*report.Report, error) { return dense.Run(ctx, cfg) })
}

func newDenseServer() *cobra.Command {
	return &cobra.Command{
		Use:    denseServer,
		Short:  "The server process of push --dense; started by psbench itself",
		Hidden: true,
		Args:   noArgs,
		RunE:   func(*cobra.Command, []string) error { return dense.Serve(os.Stdin, os.Stdout) },
	}
}
