package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/sched/compress"
	"psrt/sched/train"
)

// compressFlag is --compress.
type compressFlag struct {
	compress.Choice
	merge mergeFlag
}

func (f *compressFlag) register(fl *pflag.FlagSet) {
	fl.Var(f, "compress", "how gradients travel: none, fp16, int8 (a scale a row), topk:R (the share R of rows with the greatest, the rest later), topk:R:N (the share falls to R in the first N epochs), auto (the fastest of the first three)")
	fl.Var(&f.merge, "merge-pushes", "with asp and ssp, how many steps' gradients of rows are added up before they are sent: off, 2 to 8, or auto, up to 4 where a link is the bottleneck (not with adam and ftrl)")
}

// Set reads what the user says.
func (f *compressFlag) Set(s string) (err error) {
	if s == "" {
		return errors.New("is empty: give one of none, fp16, int8, topk:R and auto, or leave the flag out")
	}
	f.Choice, err = compress.Parse(s)
	return err
}

// Type is what --help shows.
func (f *compressFlag) Type() string { return "code" }

// settle ends a job whose worker dies where what it has not sent yet is lost with it, or
// takes a short push more a step to be made again, unless something else was asked for.
func (f *compressFlag) settle(c *cobra.Command, j *train.Job) {
	j.Compress.Merge, j.Compress.MergeAuto = f.merge.most, f.merge.auto
	if f.merge.auto && j.Sync == train.SSP { // half of the bound is left for workers to be apart
		j.Compress.Merge = min(j.Compress.Merge, max(2, 1+j.Staleness/2))
	}
	if j.Compress.Keeps() && !c.Flags().Changed("on-worker-loss") {
		j.OnWorkerLoss = train.LossEnd
	}
}

// mergeFlag is --merge-pushes.
type mergeFlag struct {
	most int
	auto bool
}

// Set reads what the user says.
func (f *mergeFlag) Set(s string) (err error) {
	f.most, f.auto, err = compress.ParseMerge(s)
	return err
}

// String is what Set reads.
func (f *mergeFlag) String() string {
	switch {
	case f.auto:
		return "auto"
	case f.most > 1:
		return strconv.Itoa(f.most)
	}
	return "off"
}

// Type is what --help shows.
func (f *mergeFlag) Type() string { return "steps" }
