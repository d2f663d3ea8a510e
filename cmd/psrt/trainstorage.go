package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"psrt/cmd/internal/cli"
	"psrt/sched/train"
	"psrt/tiers/policy"
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

// storageFlags say where rows lie that do not fit into --mem-budget.
type storageFlags struct {
	ssd, pmem string
	limit     cli.Bytes
	policy    *cli.Choice
	hbm       cli.Bytes
	hbmDevice *cli.Choice
}

func (f *storageFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.ssd, "ssd", "", "`directories`, comma separated, one on each device: rows that do not fit into --mem-budget lie there, striped over all")
	fl.Var(&f.limit, "ssd-limit", "most bytes for one server's rows in --ssd; 0: what there is")
	fl.StringVar(&f.pmem, "pmem", "", "`directory` on a byte-addressable device (DAX, CXL): the rows in memory lie in a file mapped there")
	f.policy = cli.NewChoice(policy.NameBelady, policy.NameBelady, policy.NameS3FIFO, policy.NameLRU)
	fl.Var(f.policy, "cache-policy", "which row leaves memory: the one needed latest of those announced, or by S3-FIFO or LRU")
	fl.Var(&f.hbm, "hbm-budget", "GPU memory of one server for rows of coming batches; see --hbm-device")
	f.hbmDevice = cli.NewChoice("gpu", "gpu", train.DeviceHost)
	fl.Var(f.hbmDevice, "hbm-device", "where --hbm-budget is taken: the GPU, which this version does not drive yet, or host, its twin in the host's memory, to try what it does")
}

// device gives the job's part, nil where no rows are nearer than memory.
func (f *storageFlags) device(c *cobra.Command) (*train.Device, error) {
	switch {
	case f.hbm == 0 && c.Flags().Changed("hbm-device"):
		return nil, cli.Usagef("--hbm-device has no effect without --hbm-budget: say how much of it rows may take")
	case f.hbm == 0:
		return nil, nil
	case f.hbmDevice.Value != train.DeviceHost:
		return nil, cli.Usagef("--hbm-budget %v: this version keeps no rows in a GPU's memory; --hbm-device host takes its twin in the host's memory, which is no faster, or leave --hbm-budget out", &f.hbm)
	}
	return &train.Device{Kind: train.DeviceHost, Bytes: int64(f.hbm), Policy: f.policy.Value}, nil
}

// describe gives the job's part, nil where all rows are in memory.
func (f *storageFlags) describe(c *cobra.Command, expectedRows int64) (*train.Storage, error) {
	if f.ssd == "" {
		for _, name := range []string{"ssd-limit", "pmem", "cache-policy"} {
			if c.Flags().Changed(name) && (name != "cache-policy" || f.hbm == 0) {
				return nil, cli.Usagef("--%s has no effect without --ssd: name the directories for rows", name)
			}
		}
		return nil, nil
	}
	s := &train.Storage{LimitBytes: int64(f.limit), Policy: f.policy.Value, ExpectedRows: expectedRows}
	for _, d := range append(paths(f.ssd), paths(f.pmem)...) {
		abs, err := filepath.Abs(d)
		if err != nil {
			return nil, cli.Usagef("--ssd %s: %w", d, err)
		}
		st, err := os.Stat(abs)
		if err != nil || !st.IsDir() {
			return nil, cli.Usagef("--ssd and --pmem want directories that exist, not %s: make it on the device that is meant", d)
		}
		if d == f.pmem {
			s.Pmem = abs
		} else {
			s.Dirs = append(s.Dirs, abs)
		}
	}
	return s, nil
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
