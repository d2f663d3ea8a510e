package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"psrt/bench/qualify"
	"psrt/cmd/internal/cli"
	"psrt/rdma/dial"
)

// exitUnreachable: a pair of ranks could not be measured. Outliers are 3, as
// slower rows are.
const (
	exitUnreachable = 1
	exitOutliers    = 3
)

// qualifyFlags are those of qualify alone.
type qualifyFlags struct {
	plan        qualify.Plan
	ranks       int
	rank, world int
	coordinator string
	tokenFile   string
	listen      string
	sizes       string
	rdma        cli.RDMA
	led         bool // another process directs
	delay       string
}

func newQualify() *cobra.Command {
	o := &options{transport: cli.NewChoice("auto", "auto", "verbs", "shm", "tcp")}
	f := &qualifyFlags{}
	c := &cobra.Command{
		Use: "qualify", Args: noArgs, Short: "Qualify: does every rank reach every other, how fast, and which pair, rank or host is slow",
		Long: `What to run before a job: every ordered pair of ranks is connected as in training
(the same choice of transport, device and GID, which is told), its latency and
its bandwidth are measured with checksums, all pairs at once at the end, and what
is slower than its like is named. Disjoint pairs are measured at the same time.

Without a launcher it starts --ranks processes on this machine. Under mpirun or
srun each process is one rank; by hand give --rank, --world-size, --coordinator
(an address of rank 0) and --token-file to each. Rank 0 has the report; flags
about what to measure count there.

Exit: 0 all is well, 1 a pair could not be measured, 2 bad usage, 3 outliers
(or, with --compare, a row that is slower).`,
		Example: `  psbench qualify --ranks 4
  mpirun -n 16 psbench qualify --report fabric.html
  srun -N 8 --ntasks-per-node 1 psbench qualify --token-file token --json fabric.json
  psbench qualify --rank 1 --world-size 4 --coordinator node0:7000 --token-file token
  psbench qualify --ranks 2 --transport tcp --sizes 64K,1M --compare before.json`,
	}
	fl := c.Flags()
	fl.SortFlags = false
	f.identity(fl)
	fl.Var(o.transport, "transport", "how ranks reach each other; auto: as in training, verbs, else shm on one host, else tcp; says which and why")
	f.rdma.Add(fl)
	fl.StringVar(&f.sizes, "sizes", "1M", "sizes of a write, such as 64K,1M (`list`; K, M are powers of 1024); latency is of 8 bytes")
	fl.IntVar(&f.plan.Iterations, "iters", 1000, "ping-pongs of each ordered pair")
	fl.DurationVar(&f.plan.Duration, "duration", 50*time.Millisecond, "writes of each size and ordered pair, for about so long")
	fl.BoolVar(&f.plan.Serial, "serial", false, "one pair at a time")
	fl.IntVar(&f.plan.LinksPerHost, "links-per-host", 0, "`pairs` with other hosts that a host plays at a time (0: as many as it has RDMA devices, or 1)")
	fl.BoolVar(&f.plan.NoTotal, "no-total", false, "leave all pairs at once out")
	fl.Float64Var(&f.plan.MADs, "outlier-mads", 4, "median absolute deviations that a figure may be worse than the median of its kind")
	fl.Float64Var(&f.plan.Latency, "outlier-latency", 0.5, "share of the median that a latency may be more anyway")
	fl.Float64Var(&f.plan.Bandwidth, "outlier-bandwidth", 0.25, "share of the median that a bandwidth may be less anyway")
	fl.DurationVar(&f.plan.Timeout, "timeout", 10*time.Second, "for each step: a connection, a phase, a rank's sign of life")
	fl.DurationVar(&f.plan.JoinTimeout, "join-timeout", time.Minute, "until all ranks are there; those that are not are named, and the others measured")
	o.common(fl)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.runQualify(ctx, c, f))
	}
	return c
}

// identity are the flags that say who this process is.
func (f *qualifyFlags) identity(fl *pflag.FlagSet) {
	fl.IntVar(&f.ranks, "ranks", 4, "ranks to start on this machine, 2 to "+strconv.Itoa(qualify.MaxRanks))
	fl.IntVar(&f.ranks, "workers", 4, "the same as --ranks")
	fl.IntVar(&f.rank, "rank", 0, "this process's `number`; then --world-size, --coordinator and --token-file, too")
	fl.IntVar(&f.world, "world-size", 0, "ranks there are")
	fl.StringVar(&f.coordinator, "coordinator", "", "`HOST:PORT` of rank 0 that every rank can reach")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` with a secret of at least 16 bytes, the same at every rank")
	fl.StringVar(&f.listen, "listen", "", "`HOST:PORT` for other ranks to dial (the address from which this machine reaches the coordinator)")
	fl.BoolVar(&f.led, "led", false, "another process directs")
	fl.StringVar(&f.delay, "delay", "", "`FROM-TO:DURATION` more for each request, for tests")
	for _, name := range []string{"led", "delay"} {
		fl.Lookup(name).Hidden = true
	}
}

func (o *options) runQualify(ctx context.Context, c *cobra.Command, f *qualifyFlags) error {
	if err := o.checked(); err != nil {
		return err
	}
	if err := f.check(c); err != nil {
		return err
	}
	f.plan.Seed = o.seed
	devices, err := f.rdma.Devices()
	if err != nil {
		return err
	}
	job, end, err := f.job(ctx, c)
	if err != nil {
		return err
	}
	defer end()
	if job == nil {
		return o.qualifyLocally(ctx, f)
	}
	cfg := qualify.RankConfig{Job: *job, Listen: f.listen, JoinTimeout: f.plan.JoinTimeout,
		Dial: dial.Config{Transport: o.transport.Value, Devices: devices, StepTimeout: f.plan.Timeout}}
	if f.delay != "" {
		if cfg.Dial.Transports, err = delayed(f.delay, job.Rank); err != nil {
			return err
		}
	}
	if f.led || job.Rank != 0 {
		return qualify.RunRank(ctx, cfg)
	}
	if err := o.open(); err != nil {
		return err
	}
	progress, over := f.progress()
	found, err := qualify.DirectAndRun(ctx, cfg, f.plan, progress)
	over()
	return o.tell(found, err)
}

func (o *options) qualifyLocally(ctx context.Context, f *qualifyFlags) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if f.ranks < 2 || f.ranks > qualify.MaxRanks {
		return cli.Usagef("--ranks %d: want 2 to %d: a pair is the least there is to measure", f.ranks, qualify.MaxRanks)
	}
	if err := o.open(); err != nil {
		return err
	}
	args := []string{"qualify", "--led", "--transport", o.transport.Value, "--timeout", f.plan.Timeout.String(),
		"--join-timeout", f.plan.JoinTimeout.String()}
	if f.delay != "" {
		args = append(args, "--delay", f.delay)
	}
	args = append(args, f.rdma.Args()...)
	progress, over := f.progress()
	found, err := qualify.RunLocal(ctx, f.ranks, f.plan, qualify.Command{Path: self, Args: args}, progress)
	over()
	return o.tell(found, err)
}

// tell shows the report; what was found decides how the program ends.
func (o *options) tell(found *qualify.Finding, err error) error {
	if err != nil {
		if found != nil { // what was measured before a signal
			o.old = nil
			err = errors.Join(err, o.finish(found.Report(o.transport.Value)))
		}
		return err
	}
	slower := o.finish(found.Report(o.transport.Value))
	switch {
	case found.Unreachable() > 0:
		return &unfit{fmt.Sprintf("ordered pairs that could not be measured: %d; the report says why", found.Unreachable()), exitUnreachable}
	case slower != nil:
		return slower
	case found.Outliers() > 0:
		return &unfit{fmt.Sprintf("ordered pairs that are slower than their like, or unlike them otherwise: %d; the report names them", found.Outliers()), exitOutliers}
	}
	return nil
}

// unfit is the error of a fabric that is not as it should be.
type unfit struct {
	text string
	code int
}

func (u *unfit) Error() string    { return u.text }
func (u *unfit) CommandExit() int { return u.code }

// progress shows what is under way on a terminal; over wipes it away.
func (f *qualifyFlags) progress() (show func(string), over func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil, func() {}
	}
	const wipe = "\r\x1b[K"
	return func(text string) { fmt.Fprint(os.Stderr, wipe+text) }, func() { fmt.Fprint(os.Stderr, wipe) }
}

// check settles the flags' values.
func (f *qualifyFlags) check(c *cobra.Command) error {
	for _, s := range strings.Split(f.sizes, ",") {
		var b cli.Bytes
		if err := b.Set(strings.TrimSpace(s)); err != nil {
			return cli.Usagef("--sizes: %w", err)
		}
		f.plan.Sizes = append(f.plan.Sizes, int(b))
	}
	if c.Flags().Changed("ranks") && c.Flags().Changed("workers") {
		return cli.Usagef("--ranks and --workers are the same; give one of them")
	}
	if err := f.plan.Check(); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}
