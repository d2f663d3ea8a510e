package main

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/tiers/ckpt"
)

const locationHelp = `A place is a directory, or s3://bucket/prefix?endpoint=http://host:port (the
credentials are those of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY). What psrt
train --out wrote counts as a history of one.`

// checkpointFlags are those that all of its commands have.
type checkpointFlags struct {
	json    string
	threads int
}

func (f *checkpointFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.json, "json", "", "print one JSON object on stdout, or into `file`")
	c.Flags().Lookup("json").NoOptDefVal = "-"
	c.Flags().IntVar(&f.threads, "threads", runtime.NumCPU(), "parts that are read at once")
}

func (f *checkpointFlags) check() error {
	if f.threads < 1 {
		return cli.Usagef("--threads %d: must be at least 1", f.threads)
	}
	return nil
}

func newCheckpoint() *cobra.Command {
	c := &cobra.Command{
		Use:   "checkpoint",
		Short: "Look at the history of a model: list, verify, diff, merge",
		Long:  "Work with the bases and deltas that psrt train --checkpoint writes.\n\n" + locationHelp,
		Example: `  psrt checkpoint ls history
  psrt checkpoint verify history
  psrt checkpoint diff history@3 history@7
  psrt checkpoint merge history`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newCheckpointList(), newCheckpointVerify(), newCheckpointDiff(), newCheckpointMerge())
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return cli.Usagef("psrt checkpoint has no command %q; it has ls, verify, diff and merge", args[0])
	}
	for _, sub := range c.Commands() {
		sub.SetFlagErrorFunc(cli.FlagError)
	}
	return c
}

// places demands between one and most places.
func places(most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < 1 || len(args) > most {
			return cli.Usagef("%s: %d places are named, want 1 to %d: a directory or s3://…; see %s --help", c.CommandPath(), len(args), most, c.CommandPath())
		}
		return nil
	}
}

// badPlace makes the user's fault what is one.
func badPlace(err error) error {
	var held *ckpt.LockedError
	if errors.Is(err, ckpt.ErrNoModel) || errors.Is(err, syscall.ENOTDIR) || errors.As(err, &held) {
		return cli.Usagef("%w", err)
	}
	return err
}

// noNumber refuses PLACE@NUMBER where something is to be written: who reads it would look for
// generation NUMBER of PLACE.
func noNumber(flag, place string) error {
	if location, number := ckpt.SplitPlace(place); number > 0 {
		return cli.Usagef("--%s %s: other commands read this as generation %d of %s; give a name that does not end in @%d", flag, place, number, location, number)
	}
	return noOddNumber(flag, place)
}

// noOddNumber refuses PLACE@X where PLACE is there, PLACE@X is not, and X is no generation: a
// slip of the hand for PLACE@NUMBER, which would begin an empty directory.
func noOddNumber(flag, place string) error {
	whole, number := ckpt.SplitPlace(place)
	i := strings.LastIndexByte(whole, '@')
	if number > 0 || i <= 0 {
		return nil
	}
	if _, err := os.Stat(whole); err == nil {
		return nil
	}
	if _, err := os.Stat(whole[:i]); err != nil {
		return nil
	}
	return cli.Usagef("--%s %s: %q is no generation of %s; give %s@NUMBER with one that psrt checkpoint ls %s lists, or another name", flag, place, whole[i+1:], whole[:i], whole[:i], whole[:i])
}
