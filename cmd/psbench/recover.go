package main

import (
	"context"

	"github.com/spf13/cobra"

	"psrt/bench/recover"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

func newRecover() *cobra.Command {
	o := &options{}
	cfg := recover.Config{}
	var dirs, ssd string
	c := &cobra.Command{
		Use: "recover", Args: noArgs, Short: "Recover: checkpoints written as base and deltas, and loaded again",
		Long: `A table is written as a base, some of its rows as a delta and as a quantised one,
and base and delta are loaded into new tables, as a server does that starts again.

The limit is measured in the same run: the same files read from the disk without a
look at what they hold. The time of the restart is predicted from it first. What is
loaded must have the digest of what was written. With --ssd, the same for stores
whose rows are on disk: from the checkpoint, and from the logs that they keep.`,
		Example: "  psbench recover --dirs /ssd/a --ssd /ssd/a,/ssd/b\n  psbench recover --dirs /ssd/a --rows 10000000 --lanes 4 --json recover.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringVar(&dirs, "dirs", "", "`directory` on the disk to measure; a temporary one in it is used, and removed")
	fl.StringVar(&ssd, "ssd", "", "`directories`, one on each device: also stores whose rows are on disk, from the checkpoint and from their own logs")
	fl.IntVar(&cfg.Rows, "rows", 2_000_000, "rows of the table")
	fl.IntVar(&cfg.Dim, "dim", 32, "floats of a row; its optimizer keeps as many again")
	fl.IntVar(&cfg.Dirty, "dirty", 10, "percent of the rows that a delta has")
	fl.IntVar(&cfg.Lanes, "lanes", 2, "tables, each loaded by a thread of its own")
	fl.IntVar(&cfg.Rounds, "rounds", 3, "restarts")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.runRecover(ctx, cfg, dirs, ssd))
	}
	return c
}

func (o *options) runRecover(ctx context.Context, cfg recover.Config, dirs, ssd string) error {
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed = o.seed
	made, remove, err := scratch(dirs, "psbench-recover-")
	if err != nil {
		return err
	}
	defer remove()
	cfg.Dir = made[0]
	if ssd != "" {
		on, remove, err := scratch(ssd, "psbench-recover-")
		if err != nil {
			return err
		}
		defer remove()
		cfg.SSD = on
	}
	return o.measure(cfg.Check(), func() (*report.Report, error) { return recover.Run(ctx, cfg) })
}
