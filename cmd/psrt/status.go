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
}

// target is a job and where its ranks are asked.
type target struct {
	pid       int
	endpoints []string
}

const jobsSource = `Jobs are found that "psrt train" and "psrt serve" run on this machine for this user (with the same
TMPDIR); --at asks the --metrics addresses of ranks that were started one by one.`

func newStatus() *cobra.Command {
	f := &statusFlags{}
	c := &cobra.Command{
		Use: "status", Short: "What a running job does: ranks, rates, clocks, and who sends how much",
		Long: "Look twice at the jobs that run and show what has happened between.\n\n" + jobsSource,
		Example: `  psrt status
  psrt status --json | jq '.servers[].fan_in'
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
	fl.StringVar(&f.json, "json", "", "print one JSON object a job and look on stdout, or into `file`")
	fl.Lookup("json").NoOptDefVal = "-"
}

// shortest is an interval in which counters move.
const shortest = 50 * time.Millisecond

func (f *statusFlags) run(again bool) error {
	if f.interval < shortest {
		return cli.Usagef("--interval %v: must be at least %v", f.interval, shortest)
	}
	targets, err := f.targets()
	if err != nil {
		return err
	}
	out, err := cli.OpenOutput("json", f.json)
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible()
	defer stop()
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
			if s.PID = t.pid; len(s.Servers)+len(s.Workers) == 0 {
				continue // it has ended, or has not begun
			}
			shown++
			if err := showStatus(out, &s); err != nil {
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
	for i, t := range targets {
		list[i] = metrics.Look(ctx, t.endpoints)
	}
	return list
}

// targets finds the jobs.
func (f *statusFlags) targets() ([]target, error) {
	if f.at != "" {
		if f.pid != 0 {
			return nil, cli.Usagef("--pid %d and --at: a job at addresses has no launcher; leave one out", f.pid)
		}
		return []target{{endpoints: paths(f.at)}}, nil
	}
	list, err := launch.Running(os.TempDir())
	if err != nil {
		return nil, err
	}
	var found []target
	for _, l := range list {
		if f.pid == 0 || f.pid == l.PID {
			found = append(found, target{l.PID, job.MetricsSockets(l.Path)})
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case f.pid != 0:
		return nil, cli.Usagef("--pid %d: psrt train does not run under that number for this user; psrt status shows all jobs", f.pid)
	}
	return nil, fmt.Errorf("no psrt train or psrt serve runs on this machine for this user (below %s); --at HOST:PORT asks ranks elsewhere", os.TempDir())
}

func showStatus(out io.Writer, s *metrics.Status) error {
	if out != nil {
		return json.NewEncoder(out).Encode(s)
	}
	return printStatus(os.Stdout, s)
}
