package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/server"
	"psrt/tiers/policy"
)

// ssdFlags say where a server's rows lie that do not fit into --mem-budget.
type ssdFlags struct {
	ssd, pmem string
	limit     cli.Bytes
	policy    *cli.Choice
}

// register names the flags; which is the policy without one: trainers that announce
// nothing have nothing to be looked ahead.
func (f *ssdFlags) register(fl *pflag.FlagSet, which string) {
	fl.StringVar(&f.ssd, "ssd", "", "`directories`, comma separated, one on each device: rows that do not fit into --mem-budget lie there, striped over all")
	fl.Var(&f.limit, "ssd-limit", "most bytes for one server's rows in --ssd; 0: what there is")
	fl.StringVar(&f.pmem, "pmem", "", "`directory` on a byte-addressable device (DAX, CXL): the rows in memory lie in a file mapped there")
	f.policy = cli.NewChoice(which, policy.NameBelady, policy.NameS3FIFO, policy.NameLRU)
	fl.Var(f.policy, "cache-policy", "which row leaves memory: the one needed latest of those announced, or by S3-FIFO or LRU")
}

// directories are those of --ssd and of --pmem, made where they are missing; none without --ssd.
// idle is whether a --cache-policy without --ssd is one for nothing.
func (f *ssdFlags) directories(c *cobra.Command, idle bool) (dirs []string, pmem string, err error) {
	if f.ssd == "" {
		for _, name := range []string{"ssd-limit", "pmem", "cache-policy"} {
			if c.Flags().Changed(name) && (name != "cache-policy" || idle) {
				return nil, "", cli.Usagef("--%s has no effect without --ssd: name the directories for rows", name)
			}
		}
		return nil, "", nil
	}
	for _, d := range append(paths(f.ssd), paths(f.pmem)...) {
		abs, err := filepath.Abs(d)
		if err != nil {
			return nil, "", cli.Usagef("--ssd %s: %w", d, err)
		}
		if err := ownDirectory(abs); err != nil {
			return nil, "", err
		}
		if d == f.pmem {
			pmem = abs
		} else {
			dirs = append(dirs, abs)
		}
	}
	return dirs, pmem, nil
}

// ownDirectory makes the last part of a path, where the rest is there: what is
// missing before it is more likely a device that is not mounted.
func ownDirectory(dir string) error {
	err := os.Mkdir(dir, 0o755)
	switch st, bad := os.Stat(dir); {
	case bad == nil && st.IsDir():
		return nil
	case bad == nil:
		return cli.Usagef("%s is a file; --ssd and --pmem want directories", dir)
	case errors.Is(err, os.ErrNotExist):
		return cli.Usagef("--ssd and --pmem: %s does not exist, so %s cannot be made in it; is the device mounted?", filepath.Dir(dir), filepath.Base(dir))
	}
	return cli.Usagef("--ssd and --pmem: %w", err)
}

// describe gives a server's storage, nil where no rows are on disks. idle is that of directories.
func (f *ssdFlags) describe(c *cobra.Command, idle bool) (*server.Storage, error) {
	dirs, pmem, err := f.directories(c, idle)
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	return &server.Storage{Dirs: dirs, LimitBytes: int64(f.limit), Pmem: pmem, Policy: f.policy.Value}, nil
}
