package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/sched/compress"
	"psrt/sched/train"
)

// compressFlag is --compress.
type compressFlag struct{ compress.Choice }

func (f *compressFlag) register(fl *pflag.FlagSet) {
	fl.Var(f, "compress", "how gradients travel: none, fp16, int8 (a scale a row), topk:R (the share R of rows with the greatest, the rest later), auto (the fastest of the first three)")
}

// Set reads what the user says.
func (f *compressFlag) Set(s string) (err error) {
	f.Choice, err = compress.Parse(s)
	return err
}

// Type is what --help shows.
func (f *compressFlag) Type() string { return "code" }

// settle ends a job whose worker dies where what it has not sent yet is lost with it,
// unless something else was asked for.
func (f *compressFlag) settle(c *cobra.Command, j *train.Job) {
	if f.Code == compress.Top && !c.Flags().Changed("on-worker-loss") {
		j.OnWorkerLoss = train.LossEnd
	}
}
