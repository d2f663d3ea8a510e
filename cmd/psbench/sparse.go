package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/bench/sparse"
	"psrt/cmd/internal/cli"
)

// sparseServer is the hidden command that is the other process.
const sparseServer = "sparse-server"

var sparseShort = map[string]string{
	"pull": "Pull: rows of an embedding table from a server, beside the bare loop and the classic design",
	"push": "Push: gradients of rows by ticket to a server, beside the bare loop and the classic design",
}

func newSparse(op string) *cobra.Command {
	o := &options{transport: cli.NewChoice("shm", "shm", "tcp", "verbs")}
	cfg := sparse.Config{Op: op}
	c := &cobra.Command{
		Use: op, Args: noArgs, Short: sparseShort[op],
		Long: sparseShort[op] + `.

A server process holds the table; a batch is distinct keys drawn evenly from it.
The limit is measured in the same run: the same loop over the same rows inside
one process. Beside it runs a parameter server of the classic kind: one message
of keys and values, copied in and out, a hash map behind a lock; over a plain
socket and over the same transport.`,
		Example: "  psbench " + op + " --transport shm\n  psbench " + op + " --transport tcp --keys 4096 --dims 16,64 --rows 10000000 --json " + op + ".json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.Var(o.transport, "transport", "what moves the bytes")
	fl.IntVar(&cfg.Keys, "keys", 4096, "distinct keys of a batch")
	fl.IntSliceVar(&cfg.Dims, "dims", []int{16, 64}, "floats of a row, each measured in turn")
	fl.IntVar(&cfg.Rows, "rows", 1_000_000, "rows of the table")
	fl.IntVar(&cfg.Batches, "batches", 50, "batches of a round")
	fl.IntVar(&cfg.Rounds, "rounds", 7, "rounds, in which all take turns")
	var d denseFlags
	if op == "push" {
		d.add(fl)
	}
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		if d.on {
			return cli.InterruptedOr(ctx, o.runDense(ctx, &d, cfg.Batches, cfg.Rounds))
		}
		return cli.InterruptedOr(ctx, o.runSparse(ctx, cfg))
	}
	return c
}

func (o *options) runSparse(ctx context.Context, cfg sparse.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Transport, cfg.Seed, cfg.Child = o.transport.Value, o.seed, child.Command{Path: self, Args: []string{sparseServer}}
	return o.measure(cfg.Check(), func() (*report.Report, error) { return sparse.Run(ctx, cfg) })
}

func newSparseServer() *cobra.Command {
	return &cobra.Command{
		Use:    sparseServer,
		Short:  "The server process of pull and push; started by psbench itself",
		Hidden: true,
		Args:   noArgs,
		RunE:   func(*cobra.Command, []string) error { return sparse.Serve(os.Stdin, os.Stdout) },
	}
}
