package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/job"
	"psrt/sched/train"
)

func newTrain() *cobra.Command {
	f := &trainFlags{}
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a model through parameter servers",
		Long: `Train a click-through or regression model. Starts --servers and --workers
processes on this machine; with --rank, --world-size and --coordinator this
process is one rank of a job whose ranks are started elsewhere too (the first
--servers ranks serve, the others work; rank 0 keeps the coordinator). All ranks
may have the same flags; a flag that describes the job counts at rank 0, and
--json and --report at the first worker. With --colocate every process is both.`,
		Example: `  psrt train --data train.libffm --valid valid.libffm --test test.libffm --model fm --servers 2 --workers 2
  psrt train --data 'logs/*.tsv.gz' --format criteo --model deepfm --hidden 256,256 --out model --json
  psrt train --data a.csv --schema a.yaml --task regression --model lr --sync bsp --seed 7`,
	}
	f.register(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return runTrain(c, f) }
	return c
}

func runTrain(c *cobra.Command, f *trainFlags) error {
	if f.config != "" {
		if err := applyConfig(c, f.config); err != nil {
			return err
		}
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	if rank, err := f.identify(c); err != nil {
		return err
	} else if rank {
		return f.labelled(runRank(ctx, c, f))
	}
	j, note, err := f.asked(ctx, c)
	if err != nil {
		return cli.InterruptedOr(ctx, err)
	}
	out, err := f.openOutputs()
	if err != nil {
		return err
	}
	show := newDisplay(os.Stderr, f.quiet)
	show.note(note)
	if j.Lifecycle != nil {
		show.note(lifeNote(j))
	}
	seen, err := f.see.follow(show.event)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	endpoint, begin, err := f.jobMetrics(show.note)
	if err != nil {
		return err
	}
	if endpoint != nil {
		defer endpoint.Close()
	}
	args := append([]string{"train", "--numa", f.numa, "--stall-after", f.stallAfter.String()}, f.transport.args()...)
	if f.colocate {
		args = append(args, "--colocate")
	}
	res, err := job.RunProcesses(ctx, j, job.ProcessConfig{
		Exe: exe, Args: args, Colocate: f.colocate, WorkerRestarts: f.workersLost.restarts,
		Events: seen.event, Metrics: begin, Store: f.store(c, show.warn),
	})
	show.end()
	if err := errors.Join(err, seen.end(res)); err != nil {
		return cli.InterruptedOr(ctx, err)
	}
	res.Warnings = show.warnings(res.Warnings)
	return report(res, j, f, out, seen.curve)
}

// mostHere is how many processes one command starts: more are a slip of the hand, and would
// take the machine away from everybody before any of them could say so.
const mostHere = 512

// asked is the job of a psrt that starts all ranks itself.
func (f *trainFlags) asked(ctx context.Context, c *cobra.Command) (*train.Job, string, error) {
	if err := f.onlyWithRank(c); err != nil {
		return nil, "", err
	}
	if n := max(0, f.servers) + max(0, f.workers); n > mostHere {
		return nil, "", cli.Usagef("--servers %d and --workers %d: %d processes on one machine, at most %d; deal the ranks over hosts with mpirun or srun, or ask for --threads instead", f.servers, f.workers, n, mostHere)
	}
	if err := f.together(c, f.servers); err != nil {
		return nil, "", err
	}
	j, note, err := f.describe(ctx, c)
	if err != nil {
		return nil, "", err
	}
	f.workersLost.startedHere(j, f.colocate)
	return j, note, f.replicas.onOneHost(j.Servers)
}

// runRank is one rank, started by RunProcesses or by a launcher.
func runRank(ctx context.Context, c *cobra.Command, f *trainFlags) error {
	switch {
	case f.rank < 0:
		return cli.Usagef("--rank %d: must be 0 or more; leave it out to have psrt start all ranks", f.rank)
	case f.world < 2 && !f.colocate || f.rank >= f.world && os.Getenv(job.EnvLaunched) == "": // a launcher gives servers that come later the ranks behind
		return cli.Usagef("--rank %d needs --world-size above it, not %d", f.rank, f.world)
	}
	if err := f.replicas.checkLabels(); err != nil { // each rank's own
		return err
	}
	if err := f.together(c, f.world); err != nil {
		return err
	}
	began := time.Now()
	cfg, started, err := f.rankConfig()
	if err != nil {
		return err
	}
	show := newDisplay(os.Stderr, f.quiet)
	show.label = f.label()
	cfg.Began = began
	describe := func() (*train.Job, error) {
		j, note, err := f.describe(ctx, c)
		if err == nil {
			j.Flags = jobFlags(c)
			show.note(note)
			if warning := f.launcherEndsAll(j); warning != "" {
				show.warn(warning)
			}
			if j.Lifecycle != nil {
				show.note(lifeNote(j))
			}
		}
		return j, err
	}
	store := f.store(c, show.warn)
	store.Ranks, cfg.Own = !started, store
	met, linger, err := f.find(ctx, &cfg, store, describe, show.note)
	if err != nil {
		return cli.InterruptedOr(ctx, err)
	}
	if met != nil {
		defer met.Close()
	}
	shown, endpoint, err := f.rankMetrics(started, show.note)
	if err != nil {
		return err
	}
	if endpoint != nil {
		defer endpoint.Close()
	}
	cfg.Metrics = shown
	var asked *train.Job
	var out io.WriteCloser
	seen := &follower{}
	if !started {
		seen.next, seen.every = show.event, 1
		cfg.Events = func(e train.Event) { seen.event(e) }
		cfg.Check = func(j *train.Job) (err error) {
			if asked = j; f.rank != 0 {
				if err := f.agree(c, j); err != nil {
					return err
				}
			}
			if f.rank == f.hasResult(j) {
				out, err = f.openOutputs()
				if err == nil {
					seen, err = f.see.follow(show.event)
				}
			}
			return err
		}
		if f.rank == 0 && met == nil {
			j, err := describe()
			if err != nil {
				return cli.InterruptedOr(ctx, err)
			}
			host, err := job.HostCoordinator(ctx, f.coordinator, cfg.Token, j, store)
			if err != nil {
				return err
			}
			defer host.Close()
			linger, cfg.Hosted = host.Linger, host
		}
	}
	var first bool // this process goes on for the first worker, too
	cfg.OnAdopt = func(worker int) { first = first || worker == 0 }
	run := job.JoinAndRun
	if f.colocate {
		run = job.JoinAndRunBoth
	}
	res, err := run(ctx, f.coordinator, cfg)
	if ctx.Err() == nil {
		linger(err)
	}
	show.end()
	if started {
		// The launcher reads the pipe; what goes to stderr is for its tail.
		if err != nil {
			cfg.Events(train.Event{Failure: job.Failure(err)})
			return err
		}
		if res != nil && (first || f.rank == res.Servers && !f.colocate || f.colocate && f.rank == 0) {
			cfg.Events(train.Event{Result: res})
		}
		return nil
	}
	if err := errors.Join(err, seen.end(res)); err != nil {
		return cli.InterruptedOr(ctx, err)
	}
	if res == nil || !first && f.rank != f.hasResult(asked) {
		return nil
	}
	if out == nil && first {
		if out, err = f.openOutputs(); err != nil {
			return err
		}
	}
	res.Warnings = show.warnings(res.Warnings)
	return report(res, asked, f, out, seen.curve)
}

// rankConfig is what flags say of a rank; started: by psrt itself, to whom it tells what
// happens.
func (f *trainFlags) rankConfig() (cfg job.RankConfig, started bool, err error) {
	started = os.Getenv(job.EnvLaunched) != ""
	events := func(train.Event) {}
	if started {
		events = job.EventPipe()
	}
	node, err := job.NUMANode(f.numa, f.rank, "")
	if err != nil {
		return cfg, started, cli.Usagef("%w", err)
	}
	if err := checkListen(f.listen); err != nil {
		return cfg, started, err
	}
	devices, err := f.transport.Devices()
	return job.RankConfig{Rank: f.rank, World: f.world, Transport: f.transport.kind.Value, Devices: devices, Cover: f.transport.cover(), Listen: f.listen, Node: node, HostLabel: f.replicas.host, Rack: f.replicas.rack, Weight: f.replicas.weight, Events: events, JoinTimeout: f.joinTimeout, StallAfter: f.stallAfter, Seen: !started}, started, err
}

// report prints the result, and then fails where the job's last checkpoint or model for serving did.
func report(res *train.Result, j *train.Job, f *trainFlags, out io.WriteCloser, curve []train.Progress) error {
	return errors.Join(printReports(res, j, f, out, curve), unsaved(res))
}

// unsaved is the error of a job that has ended and could not save its state at last.
func unsaved(res *train.Result) (err error) {
	if c := res.Checkpoints; c != nil && c.LastFailure != "" {
		after := "none was written"
		if c.Newest > 0 {
			after = fmt.Sprintf("the newest is %d", c.Newest)
		}
		err = fmt.Errorf("the last checkpoint in %s failed, and %s: %s", c.Location, after, c.LastFailure)
	}
	if l := res.Life; l != nil && l.Serving != nil && l.Serving.LastFailure != "" {
		err = errors.Join(err, fmt.Errorf("the last model for serving in %s failed: %s", l.Serving.Location, l.Serving.LastFailure))
	}
	return err
}

// printReports prints the result: JSON alone on stdout, or for people.
func printReports(res *train.Result, j *train.Job, f *trainFlags, out io.WriteCloser, curve []train.Progress) error {
	if f.report != "" {
		if err := writeReport(f.report, res, j, curve); err != nil {
			return err
		}
	}
	if out != nil {
		enc := json.NewEncoder(out)
		return errors.Join(enc.Encode(res), out.Close())
	}
	printResult(os.Stdout, res)
	if j.Out != "" {
		fmt.Printf("model        %s  (psrt eval --model %s --data …)\n", j.Out, j.Out)
	}
	if f.report != "" {
		fmt.Printf("report       %s\n", f.report)
	}
	return nil
}
