package main

import (
	"context"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/dataset"
	"psrt/sched/job"
	"psrt/sched/kv"
	"psrt/sched/train"
)

// scoreRanks are the flags by which several processes score together, or rows come from
// servers that serve already.
type scoreRanks struct {
	trainFlags // of which those are registered that are about ranks
	live       string
	shown      *display
}

// display is the one of the command: it keeps its warnings.
func (f *scoreRanks) display() *display {
	if f.shown == nil {
		f.shown = newDisplay(os.Stderr, f.quiet)
	}
	return f.shown
}

func (f *scoreRanks) register(c *cobra.Command) {
	fl := c.Flags()
	fl.IntVar(&f.workers, "workers", 1, "processes that share the rows out; or start this by mpirun or srun, or each with --rank")
	fl.IntVar(&f.servers, "servers", 0, "server processes that have the model's rows (none: each worker has all of them)")
	fl.IntVar(&f.lanes, "lanes", 0, "lanes per server (cores / servers / 4)")
	fl.StringVar(&f.live, "live", "", "`addresses` HOST:PORT[,…] of psrt serve: rows are pulled from there as they are now, and none is made; --token-file has their secret")
	f.transport.add(fl)
	fl.StringVar(&f.numa, "numa", "auto", "NUMA `node` of a rank's memory: auto deals ranks round the nodes, none pins nothing")
	fl.StringVar(&f.metrics, "metrics", "", "show ranks to Prometheus at http://`HOST:PORT`/metrics")
	fl.DurationVar(&f.stallAfter, "stall-after", stallAfter, "a wait of so long is told: who waits for whom, why, and since when (0: never)")
	fl.BoolVar(&f.quiet, "quiet", false, "no progress on stderr; warnings are printed")
	f.registerRanks(fl)
	cli.ZeroIsUnset(fl, "lanes", "world-size", "join-timeout")
}

// pulls is how a process of its own reaches live servers; nil: it has the model.
func (f *scoreRanks) pulls() (*kv.Config, error) {
	switch {
	case f.live == "":
		return nil, nil
	case f.tokenFile == "":
		return nil, cli.Usagef("--live %s needs --token-file: the secret that psrt serve was given", f.live)
	}
	if err := checkAddresses("live", f.live); err != nil {
		return nil, err
	}
	devices, err := f.transport.Devices()
	if err != nil {
		return nil, err
	}
	show := f.display()
	cfg := &kv.Config{Servers: paths(f.live), TokenFile: f.tokenFile, Looks: true, StallAfter: kv.StallsAfter(f.stallAfter),
		Say: func(line string) { show.event(train.Event{Stall: line}) }}
	cfg.Reach(f.transport.kind.Value, devices, f.transport.cover())
	return cfg, nil
}

// several says whether processes score together, this one being one of them, or
// starting them.
func (f *scoreRanks) several(c *cobra.Command) (rank, yes bool, err error) {
	if rank, err = f.identify(c); err != nil || rank {
		return rank, rank, err
	}
	if f.workers < 1 || f.servers < 0 {
		return false, false, cli.Usagef("--workers %d --servers %d: there must be at least 1 worker", f.workers, f.servers)
	}
	return false, f.workers > 1 || f.servers > 0, nil
}

// together scores with other processes. describe makes the job, where this is who asks.
func (f *scoreRanks) together(ctx context.Context, c *cobra.Command, rank bool, describe func() (*train.Job, error)) (*train.Result, error) {
	if rank {
		return f.one(ctx, c, describe)
	}
	but := []string{}
	if f.live != "" {
		but = append(but, "token-file")
	}
	if err := f.onlyWithRank(c, but...); err != nil {
		return nil, err
	}
	j, err := describe()
	if err != nil {
		return nil, err
	}
	defer j.Predict.RemoveParts(j.Workers)
	show := f.display()
	endpoint, begin, err := f.jobMetrics(show.note)
	if err != nil {
		return nil, err
	}
	if endpoint != nil {
		defer endpoint.Close()
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{c.Name(), "--numa", f.numa, "--stall-after", f.stallAfter.String()}, f.transport.args()...)
	return job.RunProcesses(ctx, j, job.ProcessConfig{Exe: exe, Args: args, Events: show.event, Metrics: begin, Store: f.store(c, show.warn)})
}

// one is one rank's part; the result is the first worker's.
func (f *scoreRanks) one(ctx context.Context, c *cobra.Command, describe func() (*train.Job, error)) (*train.Result, error) {
	if f.rank < 0 || f.world < 1 || f.rank >= f.world {
		return nil, cli.Usagef("--rank %d --world-size %d: ranks are 0 to one less than there are", f.rank, f.world)
	}
	cfg, started, err := f.rankConfig()
	if err != nil {
		return nil, err
	}
	show := f.display()
	show.label = f.label()
	described := func() (*train.Job, error) {
		j, err := describe()
		if err == nil {
			j.Flags = jobFlags(c)
		}
		return j, err
	}
	store := f.store(c, show.warn)
	store.Ranks, cfg.Own = !started, store
	met, linger, err := f.find(ctx, &cfg, store, described, show.note)
	if err != nil {
		return nil, err
	}
	if met != nil {
		defer met.Close()
	}
	shown, endpoint, err := f.rankMetrics(started, show.note)
	if err != nil {
		return nil, err
	}
	if endpoint != nil {
		defer endpoint.Close()
	}
	cfg.Metrics = shown
	if !started {
		cfg.Events = show.event
		cfg.Check = func(j *train.Job) error {
			if f.rank == 0 {
				return nil
			}
			return f.agree(c, j)
		}
		if f.rank == 0 && met == nil {
			j, err := described()
			if err != nil {
				return nil, err
			}
			host, err := job.HostCoordinator(ctx, f.coordinator, cfg.Token, j, store)
			if err != nil {
				return nil, err
			}
			defer host.Close()
			linger, cfg.Hosted = host.Linger, host
		}
	}
	res, err := job.JoinAndRun(ctx, f.coordinator, cfg)
	if ctx.Err() == nil {
		linger(err)
	}
	switch {
	case err != nil && started:
		cfg.Events(train.Event{Failure: job.Failure(err)})
	case err == nil && res != nil && f.rank == res.Servers && started:
		cfg.Events(train.Event{Result: res})
	}
	if err != nil || started || res == nil || f.rank != res.Servers {
		return nil, err
	}
	return res, nil
}

// job is what ranks are to do.
func (f *scoreRanks) job(m *modelFlags, known *train.ModelInfo, src *dataset.Source, p *train.Predict) (*train.Job, error) {
	if len(p.Live) > 0 && f.servers > 0 {
		return nil, cli.Usagef("--live %s and --servers %d: rows come from one of them", f.live, f.servers)
	}
	j := &train.Job{Data: paths(m.data), Files: train.Files{Data: dataset.NewFileSet(src.Identities())}, Reading: src.Options(), Model: known.Model, Predict: p, Servers: f.servers, Workers: f.workers, Threads: m.threads, Lanes: f.lanes}
	if j.Lanes == 0 {
		j.Lanes = max(1, runtime.NumCPU()/max(1, j.Servers)/4)
	}
	if j.Servers+j.Workers > 1 && m.threads == runtime.NumCPU() && f.launched == nil {
		j.Threads = max(1, m.threads/j.Workers)
	}
	if err := j.Validate(); err != nil {
		return nil, cli.Usagef("%w", err)
	}
	return j, nil
}
