package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/job"
	"psrt/sched/train"
)

// workerFlags say what follows from the death of a worker.
type workerFlags struct {
	onLoss   *cli.Choice
	restarts int
	timeout  time.Duration
}

func (f *workerFlags) register(fl *pflag.FlagSet) {
	f.onLoss = cli.NewChoice("", "", train.LossRestart, train.LossContinue, train.LossEnd)
	fl.Var(f.onLoss, "on-worker-loss", "when a worker dies: restart it, continue (another goes on for it, beside its own part), or end the job (restart where psrt starts the ranks, else end; end with --colocate, --compress topk and --merge-pushes)")
	fl.IntVar(&f.restarts, "worker-restarts", job.WorkerRestarts, "times that each worker is started again; after that another goes on for it, or with --combine host the job ends")
	fl.DurationVar(&f.timeout, "worker-timeout", time.Duration(train.WorkerTimeout*float64(time.Second)), "silence of a worker's process that is taken for its death, where nobody sees it end")
}

// describe fills in the job's part.
func (f *workerFlags) describe(c *cobra.Command, j *train.Job, colocate bool) error {
	j.OnWorkerLoss, j.WorkerTimeout = f.onLoss.Value, f.timeout.Seconds()
	switch changed := c.Flags().Changed; {
	case colocate && j.Survives():
		return cli.Usagef("--on-worker-loss %s with --colocate: a process that dies takes its server's rows with it; leave one of them out", f.onLoss.Value)
	case f.restarts < 0:
		return cli.Usagef("--worker-restarts %d: must be 0 or more", f.restarts)
	case changed("worker-restarts") && f.onLoss.Value != "" && f.onLoss.Value != train.LossRestart:
		return cli.Usagef("--worker-restarts has no effect with --on-worker-loss %s", f.onLoss.Value)
	case changed("worker-timeout") && f.onLoss.Value == train.LossEnd:
		return cli.Usagef("--worker-timeout has no effect with --on-worker-loss end")
	}
	return nil
}

// startedHere is describe's default where psrt starts the ranks itself, and sees them
// die. A process that serves, too, takes its rows with it.
func (f *workerFlags) startedHere(j *train.Job, colocate bool) {
	if j.OnWorkerLoss == "" && !colocate {
		j.OnWorkerLoss = train.LossRestart
	}
}
