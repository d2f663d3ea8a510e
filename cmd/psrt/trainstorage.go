package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/train"
)

// snapshotFlags say whether a running job is saved, where and how often.
type snapshotFlags struct {
	dir, every string
	resume     bool
}

// checkpointEvery is how often where --checkpoint says nothing else.
const checkpointEvery = "60s"

func (f *snapshotFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.dir, "checkpoint", "", "`directory`, or s3://bucket/prefix, for snapshots of the running job: a base, then what has changed")
	fl.StringVar(&f.every, "checkpoint-every", checkpointEvery, "`time or steps` between two, such as 60s or 1000steps")
	fl.BoolVar(&f.resume, "resume", false, "go on from the newest snapshot in --checkpoint, on any number of servers and workers; where there is none, begin anew")
}

var stepsPattern = regexp.MustCompile(`^([0-9]+) ?steps?$`)

// describe gives the job's part, nil where nothing is saved.
func (f *snapshotFlags) describe(c *cobra.Command) (*train.Checkpoint, error) {
	if f.dir == "" {
		for _, name := range []string{"checkpoint-every", "resume"} {
			if c.Flags().Changed(name) {
				return nil, cli.Usagef("--%s has no effect without --checkpoint: name the directory of the snapshots", name)
			}
		}
		return nil, nil
	}
	k := &train.Checkpoint{Dir: f.dir, Resume: f.resume, Deltas: train.CheckpointDeltas, Keep: train.CheckpointKeep}
	if m := stepsPattern.FindStringSubmatch(f.every); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil || n < 1 {
			return nil, cli.Usagef("--checkpoint-every %s: want at least 1 step", f.every)
		}
		k.Steps = n
		return k, nil
	}
	d, err := time.ParseDuration(f.every)
	if err != nil || d <= 0 {
		return nil, cli.Usagef("--checkpoint-every %q is neither a time such as 60s nor a number of steps such as 1000steps", strings.TrimSpace(f.every))
	}
	k.Seconds = d.Seconds()
	return k, nil
}
