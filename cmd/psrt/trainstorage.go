package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"psrt/cmd/internal/cli"
	"psrt/sched/train"
	"psrt/tiers/ckpt"
	"psrt/tiers/policy"
)

// snapshotFlags say whether a running job is saved, where and how often.
type snapshotFlags struct {
	dir, every, compress string
	resume, beginAnew    bool
}

// checkpointEvery is how often where --checkpoint says nothing else.
const checkpointEvery = "60s"

// compressNone keeps blocks as they are.
const compressNone = "none"

func (f *snapshotFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.dir, "checkpoint", "", "`directory`, or s3://bucket/prefix, for snapshots of the running job: a base, then what has changed")
	fl.StringVar(&f.every, "checkpoint-every", checkpointEvery, "`time or steps` between two, such as 60s or 1000steps")
	fl.StringVar(&f.compress, "checkpoint-compress", compressNone, "how blocks of the snapshots are packed, `lz4|none`: lz4 where it saves a sixteenth; a psrt from before it cannot read them")
	fl.BoolVar(&f.resume, "resume", false, "go on from the newest snapshot in --checkpoint, on any number of servers and workers; --checkpoint DIR@N goes on from number N; where there is none, begin anew")
	fl.BoolVar(&f.beginAnew, "begin-anew", false, "train a new model although --checkpoint (or --serving) has snapshots of another run: those are kept")
}

// storageFlags say where rows lie that do not fit into --mem-budget.
type storageFlags struct {
	ssdFlags
	hbmFlags
}

func (f *storageFlags) register(fl *pflag.FlagSet) {
	f.ssdFlags.register(fl, policy.NameBelady)
	f.hbmFlags.register(fl)
}

// describe gives the job's part, nil where all rows are in memory.
func (f *storageFlags) describe(c *cobra.Command, expectedRows int64) (*train.Storage, error) {
	dirs, pmem, err := f.directories(c, f.budget == 0)
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	return &train.Storage{Dirs: dirs, LimitBytes: int64(f.limit), Pmem: pmem, Policy: f.policy.Value, ExpectedRows: expectedRows}, nil
}

// memoryShare is what servers on one machine take of its memory for tables where
// nobody says.
const memoryShare = 2

// budget is one server's memory where --ssd is given and --mem-budget is not.
func budget(servers int) int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 1 << 30
	}
	return int64(info.Totalram) * int64(info.Unit) / memoryShare / int64(servers)
}

// textBytes is about what one id takes in a text file, and idsPerRow how often it
// is met: for a guess of how many rows there will be.
const (
	textBytes = 10
	idsPerRow = 10
)

var stepsPattern = regexp.MustCompile(`^([0-9]+) ?steps?$`)

// describe gives the job's part, nil where nothing is saved.
func (f *snapshotFlags) describe(c *cobra.Command) (*train.Checkpoint, error) {
	if f.dir == "" {
		for _, name := range []string{"checkpoint-every", "checkpoint-compress", "resume"} {
			if c.Flags().Changed(name) {
				return nil, cli.Usagef("--%s has no effect without --checkpoint: name the directory of the snapshots", name)
			}
		}
		return nil, nil
	}
	if f.resume && f.beginAnew {
		return nil, cli.Usagef("--resume goes on and --begin-anew does not: give one of them")
	}
	if err := noOddNumber("checkpoint", f.dir); err != nil {
		return nil, err
	}
	dir, from := ckpt.SplitPlace(f.dir)
	k := &train.Checkpoint{Dir: dir, From: from, Resume: f.resume, Deltas: train.CheckpointDeltas, Keep: train.CheckpointKeep}
	switch f.compress {
	case compressNone:
	case ckpt.CompressLZ4:
		k.Compress = f.compress
	default:
		return nil, cli.Usagef("--checkpoint-compress %s: want %s or %s", f.compress, ckpt.CompressLZ4, compressNone)
	}
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
