package main

import (
	"context"

	"github.com/spf13/cobra"

	"psrt/bench/hbm"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

func newHBM() *cobra.Command {
	o := &options{}
	cfg := hbm.Config{}
	c := &cobra.Command{
		Use: "hbm", Args: noArgs, Short: "GPU memory: rows gathered, filled and updated, beside copies of the same bytes",
		Long: `Rows of embeddings in a GPU's memory: a batch's rows found and gathered, filled
from pinned memory of the host, updated by AdaGrad in place; and a step whose
rows are copied in ahead beside one whose rows are all there.

The limits are measured in the same run, in turns: copies of the same bytes in
the same memory, from pinned memory for fill. What is gathered is compared. On a
machine without a GPU it says why not; --device host measures the twin of a GPU,
rows in the host's memory, worked on by one thread; --device so:FILE an accelerator
of yours, as a server uses it: batches come from the host's memory and go there.`,
		Example: "  psbench hbm\n  psbench hbm --device host --rows 65536\n  psbench hbm --device host --rows 65536 --cards 4\n  psbench hbm --device so:./mine.so --rows 65536\n  psbench hbm --dim 16 --misses 30 --json hbm.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringVar(&cfg.Device, "device", hbm.DeviceGPU, "`gpu|host|so:FILE`: a GPU, its twin in the host's memory, or an accelerator by the table of functions in a library of yours")
	fl.IntVar(&cfg.Index, "gpu", 0, "the driver's number of the GPU, or the library's of its device (with --cards: 0, the first of them)")
	fl.IntVar(&cfg.Rows, "rows", 1<<20, "rows of a batch; there are four times as many")
	fl.IntVar(&cfg.Dim, "dim", 64, "floats of a row")
	fl.IntVar(&cfg.Misses, "misses", 10, "per cent of a step's rows that are not there and are copied in ahead")
	fl.IntVar(&cfg.Cards, "cards", 0, "also a step whose rows are spread over so many GPUs, or twins, and exchanged (at most 8; 0: not)")
	fl.IntVar(&cfg.Rounds, "rounds", 7, "rounds, in which both take turns")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.runHBM(ctx, cfg))
	}
	return c
}

func (o *options) runHBM(ctx context.Context, cfg hbm.Config) error {
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed = o.seed
	return o.measure(cfg.Check(), func() (*report.Report, error) { return hbm.Run(ctx, cfg) })
}
