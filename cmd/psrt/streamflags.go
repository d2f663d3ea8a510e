package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/dataset"
	"psrt/sched/train"
	"psrt/tiers/ckpt"
)

// streamFlags are about directories into which files keep coming.
type streamFlags struct {
	on           bool
	pass         string
	idle, settle time.Duration
	log          string
}

func (f *streamFlags) register(fl *pflag.FlagSet) {
	fl.BoolVar(&f.on, "stream", false, "keep reading: files that come into the directories (or match the patterns) of --data are trained once, in the order in which they come")
	fl.StringVar(&f.pass, "pass", "", "with --stream, when a pass ends, and with it the days of --accessor, and a checkpoint: after a `time` such as 1h, or a number of rows (as many as there are)")
	fl.DurationVar(&f.idle, "stream-idle", 0, "with --stream, end when no new file has come for so long (0: never)")
	fl.DurationVar(&f.settle, "stream-settle", dataset.DefaultSettle, "with --stream, how long a file must not have changed before it is read")
	fl.StringVar(&f.log, "stream-log", "", "with --stream, the `file` that says which files were read, and in which order (stream.log in --checkpoint DIR)")
	cli.ZeroIsUnset(fl, "stream-settle")
}

// describe is what a job reads, nil without --stream.
func (f *streamFlags) describe(c *cobra.Command, j *train.Checkpoint) (*train.Stream, error) {
	if !f.on {
		for _, name := range []string{"pass", "stream-idle", "stream-settle", "stream-log"} {
			if c.Flags().Changed(name) {
				return nil, cli.Usagef("--%s is for --stream: give that too, or leave it out", name)
			}
		}
		return nil, nil
	}
	switch {
	case f.idle < 0 || f.settle <= 0:
		return nil, cli.Usagef("--stream-idle %v, --stream-settle %v: want 0 or more, and above 0", f.idle, f.settle)
	case c.Flags().Changed("dataset") && c.Flags().Lookup("dataset").Value.String() != dataset.Queue:
		return nil, cli.Usagef("--dataset %s with --stream: a stream is read as it comes, which is --dataset queue", c.Flags().Lookup("dataset").Value)
	}
	s := &train.Stream{Idle: f.idle.Seconds(), Settle: f.settle.Seconds(), Log: f.log}
	if f.pass != "" {
		n, err := strconv.ParseInt(f.pass, 10, 64)
		d, notTime := time.ParseDuration(f.pass)
		switch {
		case err == nil && n > 0:
			s.Rows = n
		case err != nil && notTime == nil && d > 0:
			s.Seconds = d.Seconds()
		default:
			return nil, cli.Usagef("--pass %s: want a time such as 1h or 90s, or a number of rows", f.pass)
		}
	}
	if s.Log == "" && j != nil && ckpt.IsDirectory(j.Dir) {
		s.Log = filepath.Join(j.Dir, "stream.log")
		if err := os.MkdirAll(j.Dir, 0o755); err != nil {
			return nil, cli.Usagef("--checkpoint %s: %w", j.Dir, err)
		}
	}
	return s, nil
}

// sniffFiles are looked at to find out how a stream is read.
const sniffFiles = 8

// look finds out how the stream is read: as its log says, where the job goes on, or
// from the first files, for which it waits as long as the stream may be idle.
func (f *streamFlags) look(ctx context.Context, s *train.Stream, resume bool, data []string, opts dataset.Options, note func(string)) (reading dataset.Options, d dataset.Description, err error) {
	if resume && s.Log != "" {
		switch head, err := train.ReadStreamHead(s.Log); {
		case err == nil:
			return head.Reading, dataset.Description{Format: head.Reading.Format, Fields: head.Reading.Fields, MeanLabel: head.MeanLabel}, nil
		case !errors.Is(err, os.ErrNotExist):
			return opts, d, cli.Usagef("%w", err)
		}
	}
	since, named := time.Now(), strings.Join(data, ", ")
	watch := dataset.NewWatch(data, f.settle)
	without := make(map[string]dataset.Arrival) // files that had no rows
	for told := false; ; {
		files, err := watch.Look(time.Now(), func(path string) bool {
			a, known := without[path]
			return known && a.Same()
		})
		if err != nil {
			return opts, d, err
		}
		if files = files[:min(len(files), sniffFiles)]; len(files) > 0 {
			src, err := dataset.OpenFound(ctx, named, files, opts)
			if err == nil {
				return src.Options(), src.Describe(), nil
			}
			if !errors.Is(err, dataset.ErrNoRows) {
				return opts, d, err
			}
			for _, a := range files {
				without[a.Path] = a
			}
			since = time.Now()
			continue
		}
		if !told {
			told = true
			note(fmt.Sprintf("there is no whole file with rows in %s yet: waits for the first", named))
		}
		if watch.Unsettled() != "" { // one has come, and is still being written
			since = time.Now()
		}
		if f.idle > 0 && time.Since(since) >= f.idle {
			return opts, d, cli.Usagef("no file with rows has come into %s for --stream-idle %v: there is nothing to train; put files there, or wait longer", named, f.idle)
		}
		select {
		case <-ctx.Done():
			return opts, d, context.Cause(ctx)
		case <-time.After(f.settle / 4):
		}
	}
}
