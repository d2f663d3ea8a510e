package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/tiers/ckpt"
)

func newCheckpointDiff() *cobra.Command {
	f := &checkpointFlags{}
	var top int
	c := &cobra.Command{
		Use: "diff PLACE[@N] [PLACE[@N]]", Short: "What changed between two models", Args: places(2),
		Long: `Compare two models row by row: how many were added, changed and deleted, and
which changed most. @N chooses a generation, without it the newest is taken. With
one place its newest generation, or N, is compared with the one before it.

` + locationHelp,
		Example: `  psrt checkpoint diff history
  psrt checkpoint diff history@3 history@7 --top 20
  psrt checkpoint diff history model --json`,
	}
	f.register(c)
	c.Flags().IntVar(&top, "top", 10, "changed rows to name, of each table")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if top < 0 {
			return cli.Usagef("--top %d: must not be negative", top)
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		before, after, err := openTwo(ctx, args)
		if err != nil {
			return badPlace(cli.InterruptedOr(ctx, err))
		}
		d, err := ckpt.Diff(ctx, before, after, f.threads, top)
		if err != nil {
			return cli.InterruptedOr(ctx, err)
		}
		out, err := cli.OpenOutput("json", f.json)
		if err != nil {
			return err
		}
		if out != nil {
			return errors.Join(json.NewEncoder(out).Encode(map[string]any{"before": name(before), "after": name(after), "tables": d.Tables, "dense": d.Dense}), out.Close())
		}
		return printDifference(before, after, d)
	}
	return c
}

// name is how a model is written on the command line.
func name(m *ckpt.Model) string {
	if m.Number == 0 {
		return m.Dir()
	}
	return fmt.Sprintf("%s@%d", m.Dir(), m.Number)
}

func openTwo(ctx context.Context, args []string) (before, after *ckpt.Model, err error) {
	location, number := ckpt.SplitPlace(args[len(args)-1])
	if after, err = ckpt.OpenAt(ctx, location, number); err != nil {
		return nil, nil, err
	}
	if len(args) == 2 {
		location, number = ckpt.SplitPlace(args[0])
	} else {
		entries, err := ckpt.List(ctx, location)
		if err != nil {
			return nil, nil, err
		}
		number = 0
		for _, e := range entries {
			if e.Number < after.Number {
				number = e.Number
			}
		}
		if number == 0 {
			return nil, nil, cli.Usagef("%s has nothing before its generation %d; name two places", location, after.Number)
		}
	}
	before, err = ckpt.OpenAt(ctx, location, number)
	return before, after, err
}

func printDifference(before, after *ckpt.Model, d *ckpt.Difference) error {
	fmt.Printf("from %s to %s\n", name(before), name(after))
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "table\tbefore\tafter\tadded\tchanged\tdeleted\t")
	for _, t := range d.Tables {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", t.Name, t.Before, t.After, t.Added, t.Changed, t.Deleted)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, t := range d.Dense {
		fmt.Printf("dense %s: %d of %d elements changed, by %.4g at most\n", t.Name, t.Changed, t.Elements, t.Largest)
	}
	for _, t := range d.Tables {
		if len(t.Largest) == 0 {
			continue
		}
		fmt.Printf("largest changes of %s\n", t.Name)
		for _, r := range t.Largest {
			fmt.Fprintf(w, "%d\t%.6g\t\n", r.Key, r.Change)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}
