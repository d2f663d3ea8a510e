package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"psrt/cmd/internal/cli"
	"psrt/sched/job"
	"psrt/sched/launch"
	"psrt/sched/metrics"
)

// statusFlags are those of status and top.
type statusFlags struct {
	at, json string
	pid      int
	interval time.Duration
	reach    reachFlags
}

// target is a job and where its ranks are asked.
type target struct {
	pid    int
	places []metrics.Place
	again  func(context.Context) []metrics.Place // ranks come and go; nil: those stay
	shards *job.Control                          // nil: its servers stay what they are, or are not known
}

// jobStatus is what is shown of a job.
type jobStatus struct {
	*metrics.Status
	Cluster *job.Cluster `json:"cluster,omitempty"`
}

// cluster looks at the job's servers and groups.
func (t *target) cluster(ctx context.Context) *job.Cluster {
	if t.shards == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	c, err := t.shards.Cluster(ctx)
	if err != nil {
		return nil // the coordinator may be what hangs: the ranks say so
	}
	return c
}

const jobsSource = `Jobs are found that "psrt train" and "psrt serve" run on this machine for this user (with the same
TMPDIR), and those of which mpirun, srun or ssh has started a rank here. From anywhere else --coordinator and
--token-file, as the ranks have them, find the job; --at asks the --metrics addresses of ranks.`

func newStatus() *cobra.Command {
	f := &statusFlags{}
	c := &cobra.Command{
		Use: "status", Short: "What a running job does: ranks, rates, clocks, and who sends how much",
		Long: "Look twice at the jobs that run and show what has happened between.\n\n" + jobsSource,
		Example: `  psrt status
  psrt status --json | jq '.servers[].fan_in'
  psrt status --coordinator node0:7000 --token-file token
  psrt status --at node1:9090,node2:9091`,
	}
	f.register(c)
	c.RunE = func(*cobra.Command, []string) error { return f.run(false) }
	return c
}

func newTop() *cobra.Command {
	f := &statusFlags{}
	c := &cobra.Command{
		Use: "top", Short: "What a running job does, again and again",
		Long:    "Show what psrt status shows, anew every --interval, until Ctrl-C or the job's end.\n\n" + jobsSource,
		Example: "  psrt top\n  psrt top --interval 5s --json >> job.jsonl",
	}
	f.register(c)
	c.RunE = func(*cobra.Command, []string) error { return f.run(true) }
	return c
}

func (f *statusFlags) register(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.at, "at", "", "`addresses` HOST:PORT of ranks' --metrics, comma separated")
	fl.IntVar(&f.pid, "pid", 0, "the job of this launcher only")
	fl.DurationVar(&f.interval, "interval", time.Second, "between two looks: what rates are over")
	cli.ZeroIsUnset(fl, "pid")
	f.reach.register(fl)
	fl.StringVar(&f.json, "json", "", "print one JSON object a job and look on stdout, or into `file`")
	fl.Lookup("json").NoOptDefVal = "-"
}

// shortest is an interval in which counters move.
const shortest = 50 * time.Millisecond

func (f *statusFlags) run(again bool) error {
	if f.interval < shortest {
		return cli.Usagef("--interval %v: must be at least %v", f.interval, shortest)
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	targets, err := f.targets(ctx)
	if err != nil {
		return cli.InterruptedOr(ctx, err)
	}
	out, err := cli.OpenOutput("json", f.json)
	if err != nil {
		return err
	}
	defer func() {
		for _, t := range targets {
			if t.shards != nil {
				_ = t.shards.Close() // it was only looked at
			}
		}
	}()
	before := look(ctx, targets)
	for {
		select {
		case <-ctx.Done():
			if again {
				return nil
			}
			return cli.InterruptedOr(ctx, ctx.Err())
		case <-time.After(f.interval):
		}
		after := look(ctx, targets)
		shown := 0
		if again && out == nil && term.IsTerminal(int(os.Stdout.Fd())) {
			fmt.Print("\x1b[H\x1b[2J")
		}
		for i, t := range targets {
			s := metrics.Between(before[i], after[i])
			if s.PID = t.pid; len(s.Servers)+len(s.Workers)+len(s.Silent) == 0 {
				continue // it has ended, or has not begun
			}
			shown++
			if err := showStatus(out, &jobStatus{&s, t.cluster(ctx)}); err != nil {
				return err
			}
		}
		switch {
		case shown == 0 && again:
			return nil
		case shown == 0:
			return errors.New("no rank has answered: the job has ended, or has only begun; try again")
		case !again:
			return nil
		}
		before = after
	}
}

func look(ctx context.Context, targets []target) []metrics.Snapshot {
	list := make([]metrics.Snapshot, len(targets))
	for i := range targets {
		t := &targets[i]
		if t.again != nil {
			t.places = t.again(ctx)
		}
		list[i] = metrics.LookAt(ctx, t.places)
	}
	return list
}

// targets finds the jobs.
func (f *statusFlags) targets(ctx context.Context) ([]target, error) {
	if f.at != "" {
		if f.pid != 0 {
			return nil, cli.Usagef("--pid %d and --at: a job at addresses has no launcher; leave one out", f.pid)
		}
		if err := checkAddresses("at", f.at); err != nil {
			return nil, err
		}
		return []target{{places: plain(paths(f.at))}}, nil
	}
	if f.reach.coordinator != "" {
		token, err := f.reach.token()
		if err != nil {
			return nil, err
		}
		t, err := f.reach.job(ctx, f.reach.coordinator, token)
		return []target{t}, err
	}
	list, err := launch.Running(os.TempDir())
	if err != nil {
		return nil, err
	}
	var found []target
	for _, l := range list {
		if f.pid == 0 || f.pid == l.PID {
			found = append(found, target{pid: l.PID, places: job.MetricsPlaces(l.Path), shards: shardsOf(ctx, l.Path)})
		}
	}
	joined, err := job.JoinedJobs(os.TempDir())
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(t target) bool { return len(t.places) == 0 })
	var failed error
	for _, j := range joined {
		if f.pid != 0 && !slices.Contains(j.PIDs, f.pid) {
			continue
		}
		t, err := f.reach.job(ctx, j.Coordinator, j.Token)
		switch {
		case err != nil && len(j.Here) > 0 && ctx.Err() == nil:
			fmt.Fprintf(os.Stderr, "psrt: %s; shown are the ranks on this machine\n", cli.OneLine(err))
			t = target{places: j.Here}
		case err != nil:
			failed = err
			continue
		}
		found = append(found, t)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case failed != nil:
		return nil, failed
	case f.pid != 0:
		return nil, noPID(f.pid)
	}
	return nil, noJob("--coordinator and --token-file, or --at HOST:PORT, ask ranks elsewhere")
}

// shardsOf reaches the coordinator of a launcher's job; nil where its servers stay
// what they are.
func shardsOf(ctx context.Context, dir string) *job.Control {
	token, err := os.ReadFile(job.TokenOf(dir))
	if err != nil {
		return nil // of psrt serve
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	k, err := job.AttachLauncher(ctx, dir, token)
	if err != nil {
		return nil
	}
	return k
}

func showStatus(out io.Writer, s *jobStatus) error {
	if out != nil {
		return json.NewEncoder(out).Encode(s)
	}
	return printStatus(os.Stdout, s)
}
