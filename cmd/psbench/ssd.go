package main

import (
	"context"

	"github.com/spf13/cobra"

	"psrt/bench/report"
	"psrt/bench/ssd"
	"psrt/cmd/internal/cli"
)

func newSSD() *cobra.Command {
	o := &options{}
	cfg := ssd.Config{}
	memory := cli.Bytes(128 << 20)
	var dirs string
	c := &cobra.Command{
		Use: "ssd", Args: noArgs, Short: "SSD: a table larger than its memory, beside the raw disk and beside Pebble",
		Long: `A table of which only a part fits in memory, as one lane of a server has it: rows
read evenly and by Zipf's law, read, changed and written, and written blindly, in
batches of distinct keys.

The limit is measured in the same run: the same disk read by itself, a block for
each row that had to be read. Beside it runs Pebble, a log-structured merge tree,
with as much memory. All answers are compared.`,
		Example: "  psbench ssd --dirs /ssd/a\n  psbench ssd --dirs /ssd/a,/ssd/b --rows 20000000 --memory 1GiB --json ssd.json\n  psbench ssd --dirs /ssd/a --pebble=false --compare old.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringVar(&dirs, "dirs", "", "`directories` on the disks to measure, with commas between; a temporary one in each is used, and removed")
	fl.IntVar(&cfg.Rows, "rows", 2_000_000, "rows of the table")
	fl.IntVar(&cfg.Dim, "dim", 32, "floats of a row; its optimizer keeps as many again")
	fl.Var(&memory, "memory", "memory of each side")
	fl.IntVar(&cfg.Keys, "keys", 4096, "distinct keys of a batch")
	fl.IntVar(&cfg.InFlight, "in-flight", 4, "batches under way at a time")
	fl.IntVar(&cfg.Batches, "batches", 20, "batches of a round")
	fl.IntVar(&cfg.Rounds, "rounds", 5, "rounds, in which all take turns")
	fl.StringSliceVar(&cfg.Only, "only", nil, "`operations` by name, with commas between; without it all")
	fl.BoolVar(&cfg.Pebble, "pebble", true, "let Pebble take turns")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		cfg.Memory = int64(memory)
		return cli.InterruptedOr(ctx, o.runSSD(ctx, cfg, dirs))
	}
	return c
}

func (o *options) runSSD(ctx context.Context, cfg ssd.Config, dirs string) error {
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed = o.seed
	made, remove, err := scratch(dirs, "psbench-ssd-")
	if err != nil {
		return err
	}
	defer remove()
	cfg.Dirs = made
	return o.measure(cfg.Check(), func() (*report.Report, error) { return ssd.Run(ctx, cfg) })
}
