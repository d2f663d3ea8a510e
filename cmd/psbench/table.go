package main

import (
	"context"

	"github.com/spf13/cobra"

	"psrt/bench/report"
	"psrt/bench/tables"
	"psrt/cmd/internal/cli"
	"psrt/tiers/table"
)

func newTable() *cobra.Command {
	o := &options{}
	cfg := tables.Config{}
	optimizer := cli.NewChoice(table.AdaGrad, table.SGD, table.AdaGrad, table.RowAdaGrad, table.Adam, table.FTRL)
	c := &cobra.Command{
		Use: "table", Args: noArgs, Short: "Table: rows in memory inserted, found, gathered and updated, beside a bare loop over the same bytes",
		Long: `An embedding table in memory, by itself: new keys inserted, keys looked up, rows
gathered and updated by the optimizer, in batches drawn evenly from a table that
is larger than the caches. Each thread has a table of its own, as in a server.

The limit is measured in the same run: one prefetching loop over as many bytes
that knows where a key must be. All answers of both are compared.`,
		Example: "  psbench table\n  psbench table --dims 16 --rows 10000000 --threads 2 --optimizer sgd --json table.json\n  psbench table --compare old.json",
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.IntVar(&cfg.Keys, "keys", 4096, "distinct keys of a batch")
	fl.IntSliceVar(&cfg.Dims, "dims", []int{16, 64}, "floats of a row, each measured in turn")
	fl.IntVar(&cfg.Rows, "rows", 2_000_000, "rows of all tables together")
	fl.IntVar(&cfg.Threads, "threads", 1, "tables, each with a thread")
	fl.IntVar(&cfg.Batches, "batches", 100, "batches of a round and thread")
	fl.IntVar(&cfg.Rounds, "rounds", 7, "rounds, in which both take turns; of insert at most 3")
	fl.Var(optimizer, "optimizer", "what an update does")
	o.common(fl)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		cfg.Optimizer = optimizer.Value
		return cli.InterruptedOr(ctx, o.runTable(ctx, cfg))
	}
	return c
}

func (o *options) runTable(ctx context.Context, cfg tables.Config) error {
	if err := o.checked(); err != nil {
		return err
	}
	cfg.Seed = o.seed
	return o.measure(cfg.Check(), func() (*report.Report, error) { return tables.Run(ctx, cfg) })
}
