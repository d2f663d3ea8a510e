package main

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"

	"psrt/bench/ahead"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

func newAhead() *cobra.Command {
	o := &options{}
	cfg := ahead.Config{}
	var dirs string
	c := &cobra.Command{
		Use: "ahead", Args: noArgs, Short: "Look-ahead: training with a part of the rows in memory, and the reads of each policy",
		Long: `Two things, on generated data. A small job records what its lane looks up, and each
policy runs over that trace, as a table on disk and as a simulator that knows the
same steps to come. Then a large job trains all in memory, and with a part of its
rows there and the others on disk.

The limit of the latter is measured in the same run: the lower of the speed all in
memory and the random reads that the disk does by itself, divided by the rows read
and written for each example. Both models must have the same digest.`,
		Example: "  psbench ahead --dirs /ssd/a\n  psbench ahead --dirs /ssd/a --train=false --record lookups\n  psbench ahead --dirs /ssd/a --trace=false --examples 1000000 --vocab 8000000 --json ahead.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringVar(&dirs, "dirs", "", "`directory` on the disk to measure; a temporary one in it is used, and removed")
	fl.Int64Var(&cfg.Examples, "examples", 5_000_000, "examples of an epoch")
	fl.IntVar(&cfg.Fields, "fields", 10, "ids of an example")
	fl.Uint64Var(&cfg.Vocab, "vocab", 60_000_000, "ids in all; some are never met")
	fl.Float64Var(&cfg.Zipf, "zipf", 1.05, "exponent of the ids' power law")
	fl.IntVar(&cfg.Dim, "dim", 16, "embedding dimension")
	fl.IntVar(&cfg.Batch, "batch", 2048, "examples of a step")
	fl.IntVar(&cfg.Epochs, "epochs", 2, "passes over the data; the first one makes the rows")
	fl.Float64Var(&cfg.Percent, "percent", 1, "of the rows that fit into memory")
	fl.IntVar(&cfg.Rounds, "rounds", 1, "trainings on disk, in turns with the disk alone")
	fl.IntVar(&cfg.Threads, "threads", max(1, runtime.NumCPU()/2), "computing threads of the worker")
	fl.BoolVar(&cfg.Parts.Trace, "trace", true, "compare reads with simulators")
	fl.BoolVar(&cfg.Parts.Train, "train", true, "compare speed with memory and disk")
	fl.StringVar(&cfg.Record, "record", "", "keep the trace in `file`")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.runAhead(ctx, cfg, dirs))
	}
	return c
}

func (o *options) runAhead(ctx context.Context, cfg ahead.Config, dirs string) error {
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed = o.seed
	made, remove, err := scratch(dirs, "psbench-ahead-")
	if err != nil {
		return err
	}
	defer remove()
	cfg.Dir = made[0]
	return o.measure(cfg.Check(), func() (*report.Report, error) { return ahead.Run(ctx, cfg) })
}
