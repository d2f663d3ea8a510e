package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"psrt/bench/child"
	"psrt/bench/pipeline"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

// pipelinePart is the hidden command that is the other processes.
const pipelinePart = "pipeline-part"

func newPipeline() *cobra.Command {
	o := &options{}
	cfg, rate := pipeline.Config{}, bits(0)
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
With --real besides, workers with lines, connections and a server of their own train
in asp and ssp, and only their computing sleeps.

With --rate, lines whose link is one, too: rows of a server at the other end of a cable
between two network namespaces, whose ends send no faster than that, are pulled and
pushed over tcp, while reading and computing sleep. That takes root (or CAP_SYS_ADMIN and
CAP_NET_ADMIN, or a kernel that lets users make namespaces) and iproute2.

With --heter, small jobs with dense ranks (psrt train --heter) in several ratios of
workers to dense ranks, too: how much of the time ranks of either kind compute, in BSP
and in ASP, and that the digest in BSP is that of one process.`,
		Example: `  psbench pipeline
  psbench pipeline --straggler --workers 8 --sigma 0.3
  psbench pipeline --straggler --real --step 10ms
  psbench pipeline --rate 500mbit --step 10ms
  psbench pipeline --step 20ms --steps 500 --json pipeline.json`,
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.IntVar(&cfg.Steps, "steps", 500, "steps of each line")
	fl.DurationVar(&cfg.Step, "step", 5*time.Millisecond, "of the slowest stage, a step")
	fl.BoolVar(&cfg.Straggler, "straggler", false, "BSP, SSP with bounds that stay and one that moves, and ASP beside each other")
	fl.IntVar(&cfg.Workers, "workers", 4, "of those")
	fl.Float64Var(&cfg.Sigma, "sigma", .2, "of the logarithm of a step's time, of those")
	fl.BoolVar(&cfg.Real, "real", false, "these over a server, too, by workers whose computing sleeps")
	fl.Var(&rate, "rate", "of a link each way, in bit/s, such as 500mbit, over which lines run, too")
	fl.IntVar(&cfg.Pushes, "pushes", 1, "of those over a link, unanswered when the next step begins: 1 as psrt train does, 2 as in asp with --on-worker-loss end")
	fl.BoolVar(&cfg.Heter, "heter", false, "jobs with dense ranks, in several ratios to workers")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		cfg.RateBits = int64(rate)
		return cli.InterruptedOr(ctx, o.runPipeline(ctx, cfg))
	}
	return c
}

func (o *options) runPipeline(ctx context.Context, cfg pipeline.Config) error {
	if err := o.checked(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Seed, cfg.Part = o.seed, child.Command{Path: self, Args: []string{pipelinePart}}
	made, remove, err := scratch(os.TempDir(), "psbench-pipeline-")
	if err != nil {
		return err
	}
	defer remove()
	cfg.Dir = made[0]
	return o.measure(cfg.Check(), func() (*report.Report, error) { return pipeline.Run(ctx, cfg) })
}

func newPipelinePart() *cobra.Command {
	return newPart("pipeline", pipelinePart, pipeline.ServePart)
}

// newPart is the hidden command of a suite's other processes, that move bytes beside what
// computes, as psrt's do.
func newPart(suite, name string, serve func(role string, in io.Reader, out io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use:    name + " ROLE",
		Short:  "Another process of " + suite + "; started by psbench itself",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			cli.MakeRoom()
			return serve(args[0], os.Stdin, os.Stdout)
		},
	}
}
