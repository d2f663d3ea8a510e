package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"psrt/bench/cable"
	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/bench/whole"
	"psrt/cmd/internal/cli"
	"psrt/sched/compress"
	"psrt/sched/train/model"
)

// wholePart is the hidden command that is the other processes.
const wholePart = "train-part"

func newWhole() *cobra.Command {
	o := &options{}
	cfg := whole.Config{}
	var ways []string
	var merged []string
	kind := cli.NewChoice(model.DeepFM, model.LR, model.FM, model.WideDeep, model.DeepFM, model.DCN)
	link := cli.NewChoice(cable.Veth, cable.Veth, cable.None)
	rate, queue := bits(0), cli.Bytes(512<<10)
	c := &cobra.Command{
		Use: "train", Args: noArgs, Short: "Train: a whole training over a limited link, beside a classic parameter server and beside local rows",
		Long: `One worker trains with one server at the other end of a link, as psrt train
does (--sync asp), with --on-worker-loss end, and once more with restart, the default
where psrt train starts the ranks; in turns with it a worker that pulls, computes and
pushes one after the other, with a parameter server of the classic kind; psrt with its
server on this host, over shared memory; that again while a step's bytes cross the link
over plain sockets and are dropped, the ceiling of any trainer that needs them; and the
arithmetic alone. All compute the same.

Before that psrt trains in bsp over the link and on this host: both must give one
digest, and the rival must have that training's loss.

Both ends of the link are processes in network namespaces, and send no faster than
--rate. Without it the rate is one at which the bare bytes of a step take
--link-share of the time of a step with local rows, each way. That takes root (or
CAP_SYS_ADMIN and CAP_NET_ADMIN, or a kernel that lets users make namespaces) and
iproute2; --link none measures over loopback and takes nothing.`,
		Example: `  psbench train
  psbench train --rate 200mbit --model fm --rounds 5
  psbench train --compress fp16,int8,auto --steps 1000
  psbench train --combine 4 --rate 50mbit --model deepfm --hidden 32,16 --fields 8 --vocab 200000 --steps 40
  psbench train --link-share 0.4 --json train.json`,
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.Var(kind, "model", "that is trained")
	fl.IntVar(&cfg.Model.Dim, "dim", 16, "of embeddings")
	fl.IntSliceVar(&cfg.Model.Hidden, "hidden", []int{256, 128}, "layers, of deep models")
	fl.IntVar(&cfg.Fields, "fields", 16, "of an example")
	fl.Uint64Var(&cfg.Vocab, "vocab", 1_000_000, "ids in all")
	fl.Float64Var(&cfg.Zipf, "zipf", 1.1, "exponent of their power law")
	fl.IntVar(&cfg.Batch, "batch", 4096, "examples of a step")
	fl.StringSliceVar(&ways, "compress", nil, "ways of sending gradients that take turns, too: fp16, int8, topk:R, topk:R:N, auto")
	fl.IntVar(&cfg.Crew, "combine", 0, "so many workers take turns, too, in bsp: each for itself, and all as one host (psrt train --combine host)")
	fl.StringSliceVar(&merged, "merge-pushes", nil, "numbers of steps whose rows are sent together, which take turns, too: 2 to 8, auto")
	fl.IntVar(&cfg.Steps, "steps", 100, "of each turn")
	fl.IntVar(&cfg.Rounds, "rounds", 3, "in which all take turns; the medians are shown")
	fl.Var(link, "link", "veth, a link of its own; none, loopback")
	fl.Var(&rate, "rate", "of the link each way, in bit/s, such as 500mbit or 2gbit; 0 measures one")
	fl.Float64Var(&cfg.LinkShare, "link-share", .6, "of a step with local rows that the link then takes, each way")
	fl.Var(&queue, "queue", "bytes that an end of the link holds before it drops")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		for _, s := range ways {
			choice, err := compress.Parse(s)
			if err != nil {
				return cli.Usagef("%w", err)
			}
			cfg.Compress = append(cfg.Compress, choice)
		}
		for _, s := range merged {
			most, auto, err := compress.ParseMerge(s)
			if err != nil {
				return cli.Usagef("%w", err)
			}
			cfg.Compress = append(cfg.Compress, compress.Choice{Merge: most, MergeAuto: auto})
		}
		cfg.Model.Kind, cfg.Link, cfg.RateBits, cfg.QueueBytes = kind.Value, link.Value, int64(rate), int(queue)
		return cli.InterruptedOr(ctx, o.runWhole(ctx, cfg))
	}
	return c
}

func (o *options) runWhole(ctx context.Context, cfg whole.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := o.checked(); err != nil {
		return err
	}
	if !strings.Contains(cfg.Model.Kind, "deep") && cfg.Model.Kind != model.DCN {
		cfg.Model.Hidden = nil
	}
	made, remove, err := scratch(os.TempDir(), "psbench-train-")
	if err != nil {
		return err
	}
	defer remove()
	cfg.Seed, cfg.Dir, cfg.Part = o.seed, made[0], child.Command{Path: self, Args: []string{wholePart}}
	var seen func(string)
	if term.IsTerminal(int(os.Stderr.Fd())) {
		seen = func(step string) { fmt.Fprintln(os.Stderr, step) }
	}
	return o.measure(cfg.Check(), func() (*report.Report, error) { return whole.Run(ctx, cfg, seen) })
}

func newWholePart() *cobra.Command { return newPart("train", wholePart, whole.ServePart) }
