package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"psrt/bench/allreduce"
	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/cmd/internal/cli"
)

// allreduceRank is the hidden command that is a rank.
const allreduceRank = "allreduce-rank"

func newAllReduce() *cobra.Command {
	o := &options{transport: cli.NewChoice("shm", "shm", "tcp", "verbs")}
	cfg := allreduce.Config{}
	eager, chunk := cli.Bytes(0), cli.Bytes(0)
	c := &cobra.Command{
		Use: "allreduce", Args: noArgs, Short: "All-reduce: sums of float vectors over processes of this machine, beside OpenMPI's",
		Long: `Sums of float32 vectors over --ranks processes of this machine, each of which gets
the whole sum. The limit is measured in the same run: a copy of the vector by every
rank for shm, plain streams around the ring for tcp. OpenMPI's MPI_Allreduce takes
turns with it, round by round, over the same kind of memory or sockets (apt-get
install openmpi-bin); /rival above 1 says that psrt is faster. Over tcp two ranks have
a core each, as mpirun binds two by default.`,
		Example: `  psbench allreduce
  psbench allreduce --transport tcp --sizes 4K,1M,160000000
  psbench allreduce --ranks 4 --rival=false --json allreduce.json
  psbench allreduce --collective nccl --rival=false`,
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.Var(o.transport, "transport", "what moves the bytes")
	fl.IntVar(&cfg.Ranks, "ranks", 2, "processes")
	collective := cli.NewChoice(allreduce.Ring, allreduce.Ring, allreduce.NCCL)
	fl.Var(collective, "collective", "what adds: psrt's ring, or NCCL on a GPU at each rank, from and to the host's memory")
	fl.StringVar(&o.sizes, "sizes", "1K,64K,1M,160000000", "sizes of a vector, such as 4K,1M (`list`; K, M, G are powers of 1024)")
	fl.IntVar(&cfg.Iterations, "iters", 0, "calls per size and round (256 MiB of them, at least 5)")
	fl.IntVar(&cfg.Rounds, "rounds", 5, "rounds, in which all take turns")
	fl.BoolVar(&cfg.Rival, "rival", true, "let OpenMPI take turns (with shm and tcp)")
	fl.Var(&eager, "eager", "longest block that travels within the first word (4K)")
	fl.Var(&chunk, "chunk", "bytes that are read at a time where memory is not mapped (256K)")
	o.common(fl)
	cli.ZeroIsUnset(fl, "iters", "eager", "chunk")
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		cfg.Collective = collective.Value
		cfg.Rival = cfg.Rival && (c.Flags().Changed("rival") || o.transport.Value != "verbs")
		cfg.Options.EagerBytes, cfg.Options.ChunkBytes, cfg.Options.Node = int(eager), int(chunk), -1
		return cli.InterruptedOr(ctx, o.runAllReduce(ctx, cfg))
	}
	return c
}

func (o *options) runAllReduce(ctx context.Context, cfg allreduce.Config) (err error) {
	if err := o.checked(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if cfg.Sizes, err = o.listed(); err != nil {
		return err
	}
	cfg.Transport, cfg.Seed, cfg.Child = o.transport.Value, o.seed, child.Command{Path: self, Args: []string{allreduceRank}}
	return o.measure(cfg.Check(), func() (*report.Report, error) {
		r, err := allreduce.Run(ctx, cfg)
		if errors.Is(err, allreduce.ErrNoMPI) {
			return nil, cli.Usagef("%w", err)
		}
		return r, err
	})
}

func newAllReduceRank() *cobra.Command {
	return &cobra.Command{
		Use:    allreduceRank,
		Short:  "One rank of the allreduce suite; started by psbench itself",
		Hidden: true,
		Args:   noArgs,
		RunE:   func(*cobra.Command, []string) error { return allreduce.Serve(os.Stdin, os.Stdout) },
	}
}
