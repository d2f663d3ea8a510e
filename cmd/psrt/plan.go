package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"psrt/bench/calibrate"
	"psrt/cmd/internal/cli"
	"psrt/sched/plan"
	"psrt/sched/train"
)

func newPlan() *cobra.Command {
	var asJSON, against string
	var measure, check bool
	var rows int64
	c := &cobra.Command{
		Use:   "plan CLUSTER.yaml",
		Short: "Predict step time and bottleneck of a described cluster",
		Long: `Predict how long a step takes on a described cluster with a described model, what
limits it, and how much of what else would be enough (docs/planning.md). --measure
finds what the work costs a core of this machine, as YAML for the description;
--check holds predictions for this machine against jobs that it runs. --against holds
the prediction for the description against a run of that job of yours.`,
		Example: `  psrt plan cluster.yaml
  psrt plan --measure >> cluster.yaml
  psrt plan --check
  psrt train --data d.libffm --json run.json && psrt plan cluster.yaml --against run.json`,
		Args: cobra.MaximumNArgs(1),
	}
	fl := c.Flags()
	fl.StringVar(&asJSON, "json", "", "print one JSON object on stdout, or into `file`")
	fl.Lookup("json").NoOptDefVal = "-"
	fl.BoolVar(&measure, "measure", false, "measure this machine's costs, and print them")
	fl.BoolVar(&check, "check", false, "measure, then hold predictions against other jobs on this machine")
	fl.StringVar(&against, "against", "", "`file` that psrt train --json wrote of the job that is described; - for stdin")
	fl.Int64Var(&rows, "rows", 0, "examples to measure with (100000)")
	c.RunE = func(_ *cobra.Command, args []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		if (len(args) == 1) == (measure || check) {
			return cli.Usagef("plan takes a description, or --measure or --check")
		}
		if against != "" && len(args) != 1 {
			return cli.Usagef("--against %s: needs the description of the job that ran", against)
		}
		if rows < 0 || rows > 0 && rows < 10_000 {
			return cli.Usagef("--rows %d: must be at least 10000", rows)
		}
		if len(args) == 1 {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			d, err := plan.Parse(text)
			if err != nil {
				return cli.Usagef("%s: %w", args[0], err)
			}
			if against != "" {
				return planAgainst(asJSON, d, against)
			}
			p := plan.Predict(d)
			return planOut(asJSON, p, func() { fmt.Print(p.Text(d)) })
		}
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		cfg := calibrate.Config{Exe: exe, Rows: rows, Note: func(s string) { fmt.Fprintln(os.Stderr, "psrt: "+s) }}
		if !check {
			costs, err := calibrate.Measure(ctx, cfg, plan.Measured())
			if err != nil {
				return cli.InterruptedOr(ctx, err)
			}
			return planOut(asJSON, costs, func() {
				text, err := yaml.Marshal(map[string]plan.Costs{"costs": costs})
				if err == nil {
					fmt.Print(string(text))
				}
			})
		}
		costs, all, err := calibrate.Check(ctx, cfg, plan.Measured())
		if err != nil {
			return cli.InterruptedOr(ctx, err)
		}
		return planOut(asJSON, map[string]any{"costs": costs, "checked": all}, func() {
			fmt.Println("predicted    measured   ratio  of core-seconds  others  job")
			for _, x := range all {
				fmt.Printf("%6.2f ms  %7.2f ms    %.2f  %.2f             %5.2f   %s\n", 1e3*x.Predicted, 1e3*x.Measured, x.Ratio, x.CoreRatio, x.Others, x.Name)
			}
			fmt.Println("others: cores that were busy with something else; where that is more than a tenth of a core, only core-seconds say something")
		})
	}
	return c
}

// maxRun is the longest result of a run that is read.
const maxRun = 64 << 20

// planAgainst holds a description's prediction against a run.
func planAgainst(asJSON string, d *plan.Cluster, name string) error {
	in := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return cli.Usagef("--against: %w", err)
		}
		defer f.Close()
		in = f
	}
	run := &train.Result{}
	if err := json.NewDecoder(io.LimitReader(in, maxRun)).Decode(run); err != nil {
		return cli.Usagef("--against %s: not what psrt train --json writes: %w", name, err)
	}
	all, err := calibrate.Against(d, run)
	if err != nil {
		return cli.Usagef("--against %s: %w", name, err)
	}
	return planOut(asJSON, map[string]any{"compared": all}, func() {
		fmt.Println("predicted      measured       ratio")
		for _, x := range all {
			fmt.Printf("%-13s  %-13s  %5.2f  %s\n", plan.Quantity(x.Predicted, x.Unit), plan.Quantity(x.Measured, x.Unit), x.Ratio, x.What)
		}
	})
}

// planOut gives v as JSON where that is asked for, else text.
func planOut(asJSON string, v any, text func()) error {
	if asJSON == "" {
		text()
		return nil
	}
	out, err := cli.OpenOutput("json", asJSON)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(out).Encode(v), out.Close())
}
