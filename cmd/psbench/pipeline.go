package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"psrt/bench/pipeline"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

func newPipeline() *cobra.Command {
	o := &options{}
	cfg := pipeline.Config{}
	c := &cobra.Command{
		Use: "pipeline", Args: noArgs, Short: "Pipeline: how well a worker overlaps reading, the link and computing",
		Long: `A worker's line runs stages that take a given time, with 10 % and 30 % of jitter:
each of reading, the link and computing is the slowest once. They sleep, and so take
no core from each other. The limit is what the slowest stage by itself took in the
same run.

With --straggler, the speed of BSP, SSP, ASP and of a bound that moves (psrt train
--staleness MIN-MAX), too, and how stale what is read was, where steps take log-normal
times, in virtual time and with the clocks of the servers; and a small job that has
the same digest in BSP with several workers as in one process.

With --heter, small jobs with dense ranks (psrt train --heter) in several ratios of
workers to dense ranks, too: how much of the time ranks of either kind compute, in BSP
and in ASP, and that the digest in BSP is that of one process.`,
		Example: "  psbench pipeline\n  psbench pipeline --straggler --workers 8 --sigma 0.3\n  psbench pipeline --step 20ms --steps 500 --json pipeline.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.IntVar(&cfg.Steps, "steps", 500, "steps of each line")
	fl.DurationVar(&cfg.Step, "step", 5*time.Millisecond, "of the slowest stage, a step")
	fl.BoolVar(&cfg.Straggler, "straggler", false, "BSP, SSP with bounds that stay and one that moves, and ASP beside each other")
	fl.IntVar(&cfg.Workers, "workers", 4, "of those")
	fl.Float64Var(&cfg.Sigma, "sigma", .2, "of the logarithm of a step's time, of those")
	fl.BoolVar(&cfg.Heter, "heter", false, "jobs with dense ranks, in several ratios to workers")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.runPipeline(ctx, cfg))
	}
	return c
}

func (o *options) runPipeline(ctx context.Context, cfg pipeline.Config) error {
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed = o.seed
	made, remove, err := scratch(os.TempDir(), "psbench-pipeline-")
	if err != nil {
		return err
	}
	defer remove()
	cfg.Dir = made[0]
	return o.measure(cfg.Check(), func() (*report.Report, error) { return pipeline.Run(ctx, cfg) })
}
