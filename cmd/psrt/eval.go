package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/dataset"
	"psrt/sched/train"
	"psrt/sched/train/metric"
)

// modelFlags are what eval and predict share.
type modelFlags struct {
	input   inputFlags
	model   string
	data    string
	threads int
}

func (f *modelFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.model, "model", "", "model `directory` written by psrt train --out or psrt export, or a history")
	c.Flags().StringVar(&f.data, "data", "", "`files`, globs or directories, comma separated")
	c.Flags().IntVar(&f.threads, "threads", runtime.NumCPU(), "computing threads")
	f.input.register(c)
}

// open loads the model and looks at the data; labelled asks for labels in it. How the training data were read
// is in the model; flags that were given win.
func (f *modelFlags) open(ctx context.Context, c *cobra.Command, labelled bool) (*train.Scorer, *dataset.Source, error) {
	switch {
	case f.model == "":
		return nil, nil, cli.Usagef("--model is missing: the directory that psrt train --out or psrt export wrote")
	case f.data == "":
		return nil, nil, cli.Usagef("--data is missing: name files, globs or directories")
	case f.threads < 1:
		return nil, nil, cli.Usagef("--threads %d: must be at least 1", f.threads)
	}
	location, number := splitPlace(f.model)
	s, err := train.LoadScorer(ctx, location, number)
	if err != nil {
		return nil, nil, cli.InterruptedOr(ctx, err)
	}
	opts, err := f.input.options()
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	known := s.Info.Reading
	if !c.Flags().Changed("format") && f.input.schema == "" {
		opts.Format, opts.Schema = known.Format, known.Schema
	}
	if !c.Flags().Changed("task") {
		opts.Task = known.Task
	}
	opts.IgnoreLabels = !labelled
	if opts.Fields == 0 {
		opts.Fields = known.Fields
	}
	src, err := dataset.Open(paths(f.data), opts)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, src, nil
}

func newEval() *cobra.Command {
	f := &modelFlags{}
	var asJSON, by string
	c := &cobra.Command{
		Use:   "eval",
		Short: "Evaluate a trained model on labelled data",
		Long:  "Prints a model's figures on the data; no server is needed. What psrt train wrote is\nread into memory, what psrt export wrote for inference is mapped.",
		Example: `  psrt eval --model model --data test.libffm
  psrt eval --model model --data 'test/*.tsv.gz' --json`,
	}
	f.register(c)
	c.Flags().StringVar(&by, "metrics-by", "", "a `field` (name, or number from 0) of few values: the figures of each, too")
	c.Flags().StringVar(&asJSON, "json", "", "print one JSON object on stdout, or into `file`")
	c.Flags().Lookup("json").NoOptDefVal = "-"
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		s, src, err := f.open(ctx, c, true)
		if err != nil {
			return err
		}
		defer s.Close()
		r, err := evaluate(ctx, s, src, f.threads, by)
		if err != nil {
			return cli.InterruptedOr(ctx, err)
		}
		if asJSON != "" {
			out, err := cli.OpenOutput("json", asJSON)
			if err != nil {
				return err
			}
			return errors.Join(json.NewEncoder(out).Encode(r), out.Close())
		}
		printReport(os.Stdout, r.Report)
		for _, slot := range r.Slots {
			fmt.Printf("\nslot %s\n", slot.Slot)
			printReport(os.Stdout, slot.Report)
		}
		return nil
	}
	return c
}

// evaluation is what eval prints.
type evaluation struct {
	*metric.Report
	Slots []metric.SlotReport `json:"slots,omitempty"`
}

// fieldOf finds a field by its name, or its number.
func fieldOf(by string, names []string) (uint16, error) {
	i := slices.Index(names, by)
	if i < 0 {
		n, err := strconv.ParseUint(by, 10, 16)
		if i = int(n); err != nil || i >= len(names) {
			return 0, cli.Usagef("--metrics-by %s: there is no such field; there are %d, by name or by number from 0", by, len(names))
		}
	}
	return uint16(i), nil
}

// evaluate is a model's figures on data, and those of each value of the field by.
func evaluate(ctx context.Context, s *train.Scorer, src *dataset.Source, threads int, by string) (*evaluation, error) {
	acc, slots := metric.NewAccumulator(s.Info.Model.Task), (*metric.Slots)(nil)
	if by != "" {
		field, err := fieldOf(by, src.Describe().FieldNames)
		if err != nil {
			return nil, err
		}
		slots = metric.NewSlots(s.Info.Model.Task, field)
	}
	err := s.Score(ctx, src, threads, func(preds []float32, rows *dataset.Batch) error {
		acc.Add(preds, rows.Labels)
		return train.CountSlots(slots, preds, rows)
	})
	r := &evaluation{Report: acc.Report()}
	for _, slot := range slots.Slots() {
		r.Slots = append(r.Slots, metric.SlotReport{Slot: slot.String(), Report: slots.Of(slot).Report()})
	}
	return r, err
}

func newPredict() *cobra.Command {
	f := &modelFlags{}
	var out string
	c := &cobra.Command{
		Use:   "predict",
		Short: "Print a score for every row",
		Long: `Prints one score a line, in the order of the rows: the probability of a click
(ctr) or the value (regression). Labels are not looked at and may be absent.`,
		Example: `  psrt predict --model model --data new.libffm > scores
  psrt predict --model model --data new.libffm --out scores`,
	}
	f.register(c)
	c.Flags().StringVar(&out, "out", "", "`file` for the scores (stdout)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		s, src, err := f.open(ctx, c, false)
		if err != nil {
			return err
		}
		defer s.Close()
		file := os.Stdout
		if out != "" {
			if file, err = os.Create(out); err != nil {
				return cli.Usagef("--out: %w", err)
			}
		}
		w := bufio.NewWriterSize(file, 1<<16)
		var line []byte
		err = s.Score(ctx, src, f.threads, func(preds []float32, _ *dataset.Batch) error {
			for _, p := range preds {
				line = append(strconv.AppendFloat(line[:0], float64(p), 'g', -1, 32), '\n')
				if _, err := w.Write(line); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = w.Flush()
		}
		if e := file.Close(); err == nil && e != nil {
			err = fmt.Errorf("--out %s: %w", out, e)
		}
		if err != nil {
			return cli.InterruptedOr(ctx, err)
		}
		return nil
	}
	return c
}
