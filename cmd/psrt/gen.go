package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/dataset/gen"
)

func newGen() *cobra.Command {
	cfg := gen.Config{Threads: runtime.NumCPU()}
	var asJSON string
	c := &cobra.Command{
		Use:   "gen criteo|zipf",
		Short: "Write synthetic click data with a planted model",
		Long: `Write synthetic click data from a planted model, and print what can be reached on
it: the AUC of the planted model itself, and of the planted model restricted to
ids seen at least 20 times in the training part.`,
		Example: `  psrt gen criteo --rows 1000000 --seed 1 --split 8:1:1 --out sample.tsv
  psrt gen zipf --rows 100000 --fields 8 --vocab 50000 --zipf 1.05 --out z.libffm.gz`,
		ValidArgs: []string{"criteo", "zipf"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("gen takes one argument, criteo or zipf, not %d", len(args))
			}
			return nil
		},
	}
	fl := c.Flags()
	fl.Int64Var(&cfg.Rows, "rows", 100_000, "rows, in all parts together")
	fl.IntVar(&cfg.Fields, "fields", 0, "fields (zipf: 16; criteo has 39)")
	fl.Uint64Var(&cfg.Vocab, "vocab", 0, "ids in all (criteo 5000000, zipf 1000000)")
	fl.Float64Var(&cfg.Zipf, "zipf", 0, "exponent of the ids' power law (1.1)")
	fl.Uint64Var(&cfg.Seed, "seed", 1, "the same seed gives the same bytes")
	fl.StringVar(&cfg.Out, "out", "", "`file`; .gz, .zst or .lz4 compresses")
	fl.StringVar(&cfg.Split, "split", "", "such as 8:1:1: write NAME.train.EXT, NAME.valid.EXT and NAME.test.EXT")
	fl.StringVar(&asJSON, "json", "", "print one JSON object on stdout, or into `file`")
	fl.Lookup("json").NoOptDefVal = "-"
	cli.ZeroIsUnset(fl, "fields", "vocab", "zipf")
	c.RunE = func(_ *cobra.Command, args []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		cfg.Kind = args[0]
		r, err := gen.Run(ctx, cfg)
		if err != nil {
			return cli.InterruptedOr(ctx, err)
		}
		if w := genWarning(r); w != "" {
			fmt.Fprintln(os.Stderr, "psrt: warning: "+w)
		}
		if asJSON != "" {
			out, err := cli.OpenOutput("json", asJSON)
			if err != nil {
				return err
			}
			return errors.Join(json.NewEncoder(out).Encode(r), out.Close())
		}
		for _, f := range r.Files {
			fmt.Printf("%-24s %d rows\n", f.Path, f.Rows)
		}
		fmt.Printf("%-24s %s, %d fields, %.1f %% clicks, %d ids, %.0f %% of them seen once\n", "data", r.Format, r.Fields, 100*r.BaseRate, r.IDs, 100*r.SeenOnceShare)
		fmt.Printf("%-24s %s\n", "planted AUC", aucText(r.AUCPlanted))
		fmt.Printf("%-24s %s  (ids seen at least %d times in training)\n", "reachable AUC", aucText(r.AUCReachable), gen.Seen)
		return nil
	}
	return c
}

func aucText(auc *float64) string {
	if auc == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *auc)
}

// genWarning is what must be known before the figures are used, or "".
func genWarning(r gen.Result) string {
	switch {
	case r.AUCPlanted == nil:
		return fmt.Sprintf("the %d rows to test on are all of one label, so there is no AUC; give more --rows, or a --split with a larger last part", r.Judged)
	case r.Luck:
		return fmt.Sprintf("on the %d rows to test on the restricted model did better than the planted one, by luck; the reachable AUC is given as the planted; give more --rows for figures that mean something", r.Judged)
	}
	return ""
}
