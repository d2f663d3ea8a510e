package main

import (
	"context"

	"github.com/spf13/cobra"

	"psrt/bench/layers"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
	"psrt/sched/train/model"
)

func newLayers() *cobra.Command {
	o := &options{}
	cfg := layers.Config{Model: model.Spec{Task: model.CTR}}
	kind := cli.NewChoice(model.DeepFM, model.DeepFM, model.WideDeep, model.DCN)
	c := &cobra.Command{
		Use: "layers", Args: noArgs, Short: "Dense layers on an accelerator, beside a thread of the processor",
		Long: `The dense layers of a model, forward and backward, as a dense rank of psrt train
--heter --dense-device computes them: micro-batches from the host's memory, their
gradients back there. A thread of the processor takes turns with it at the same
ones, and what both gave is compared. On a machine without a GPU it says why not;
--device host measures a GPU's kernels as C, on one thread.`,
		Example: "  psbench layers\n  psbench layers --device host --hidden 256,128\n  psbench layers --device so:./mine.so --model dcn --json layers.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringVar(&cfg.Device, "device", "gpu", "`gpu|host|so:FILE|N`: a GPU, a GPU's kernels as C on the processor, an accelerator by the table of functions in a library of yours, or the GPU of a number")
	fl.Var(kind, "model", "which layers: those of deepfm and widedeep are the same")
	fl.IntVar(&cfg.Model.Fields, "fields", 39, "fields of an example")
	fl.IntVar(&cfg.Model.Dim, "dim", 16, "floats of a field's embedding")
	fl.IntSliceVar(&cfg.Model.Hidden, "hidden", []int{256, 128}, "units of each layer")
	fl.IntVar(&cfg.Model.CrossLayers, "cross-layers", 2, "cross layers, of dcn")
	fl.IntVar(&cfg.Examples, "examples", 512, "examples of a micro-batch")
	fl.IntVar(&cfg.Leaves, "leaves", 8, "micro-batches of a call")
	fl.IntVar(&cfg.Rounds, "rounds", 7, "rounds, in which both take turns")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		cfg.Model.Kind = kind.Value
		if kind.Value != model.DCN {
			cfg.Model.CrossLayers = 0
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		return cli.InterruptedOr(ctx, o.runLayers(ctx, cfg))
	}
	return c
}

func (o *options) runLayers(ctx context.Context, cfg layers.Config) error {
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed = o.seed
	return o.measure(cfg.Check(), func() (*report.Report, error) { return layers.Run(ctx, cfg) })
}
