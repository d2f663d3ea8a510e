package main

import (
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

	"psrt/tiers/ckpt"
)

// modelFlags are what eval and predict share.
type modelFlags struct {
	input   inputFlags
	ranks   scoreRanks
	model   string
	data    string
	threads int
}

func (f *modelFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.model, "model", "", "model `directory` written by psrt train --out or psrt export, or a history")
	c.Flags().StringVar(&f.data, "data", "", "`files`, globs or directories, comma separated")
	c.Flags().IntVar(&f.threads, "threads", runtime.NumCPU(), "computing threads")
	f.input.register(c)
	f.ranks.register(c)
}

// check refuses flags without which nothing can be done.
func (f *modelFlags) check() error {
	switch {
	case f.model == "":
		return cli.Usagef("--model is missing: the directory that psrt train --out or psrt export wrote")
	case f.data == "":
		return cli.Usagef("--data is missing: name files, globs or directories")
	case f.threads < 1:
		return cli.Usagef("--threads %d: must be at least 1", f.threads)
	}
	return nil
}

// open loads the model and looks at the data; labelled asks for labels in it.
func (f *modelFlags) open(ctx context.Context, c *cobra.Command, labelled bool) (*train.Scorer, *dataset.Source, error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	pulls, err := f.ranks.pulls()
	if err != nil {
		return nil, nil, err
	}
	location, number := ckpt.SplitPlace(f.model)
	var s *train.Scorer
	if pulls != nil {
		s, err = train.LoadScorerOver(ctx, location, number, *pulls)
	} else {
		s, err = train.LoadScorer(ctx, location, number)
	}
	if err != nil {
		return nil, nil, cli.InterruptedOr(ctx, err)
	}
	src, err := f.source(ctx, c, &s.Info, labelled)
	if err != nil {
		s.Close()
		return nil, nil, cli.InterruptedOr(ctx, err)
	}
	return s, src, nil
}

// source looks at the data. How the training data were read is in the model; flags that
// were given win.
func (f *modelFlags) source(ctx context.Context, c *cobra.Command, m *train.ModelInfo, labelled bool) (*dataset.Source, error) {
	opts, err := f.input.options()
	if err != nil {
		return nil, err
	}
	known := m.Reading
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
	return openData(ctx, f.data, opts, f.ranks.display())
}

// openData opens files for a command without a job, and shows what they lack.
func openData(ctx context.Context, data string, opts dataset.Options, show *display) (*dataset.Source, error) {
	src, err := dataset.Open(ctx, paths(data), opts)
	if err != nil {
		return nil, err
	}
	for _, note := range src.Describe().Notes {
		show.note("--data: " + note)
	}
	src.OnWarning(show.warn)
	return src, nil
}

// together scores with other processes; false where there are none. fields finds the
// fields that flags name.
func (f *modelFlags) together(ctx context.Context, c *cobra.Command, p train.Predict, fields func(j *train.Job, names []string) error) (res *train.Result, yes bool, err error) {
	rank, yes, err := f.ranks.several(c)
	if !yes || err != nil {
		return nil, yes, err
	}
	res, err = f.ranks.together(ctx, c, rank, func() (*train.Job, error) {
		if err := f.check(); err != nil {
			return nil, err
		}
		if f.ranks.live != "" {
			if _, err := f.ranks.pulls(); err != nil {
				return nil, err
			}
			p.Live, p.TokenFile = paths(f.ranks.live), f.ranks.tokenFile
		}
		location, number := ckpt.SplitPlace(f.model)
		info, number, serves, err := train.ModelAt(ctx, location, number)
		if err != nil {
			return nil, err
		}
		if f.ranks.servers > 0 && !serves {
			return nil, cli.Usagef("--servers %d: %s has weights alone, as exports and models for serving do, and servers cannot begin with that: leave --servers out, and each worker reads it itself", f.ranks.servers, f.model)
		}
		p.Model, p.Generation = location, number
		src, err := f.source(ctx, c, info, p.Labelled)
		if err != nil {
			return nil, err
		}
		j, err := f.ranks.job(f, info, src, &p)
		if err == nil {
			j.DataNotes = src.Describe().Notes
			err = fields(j, src.Describe().FieldNames)
		}
		return j, err
	})
	return res, true, f.ranks.labelled(cli.InterruptedOr(ctx, err))
}

func newEval() *cobra.Command {
	f := &modelFlags{}
	var asJSON, by string
	c := &cobra.Command{
		Use:   "eval",
		Short: "Evaluate a trained model on labelled data",
		Long:  "Prints a model's figures on the data; no server is needed. What psrt train wrote is\nread into memory, what psrt export wrote for inference is mapped. Several processes\n(--workers, mpirun, srun) share the rows, and give the same figures; with --servers\nor --live rows of the model are pulled.",
		Example: `  psrt eval --model model --data test.libffm
  psrt eval --model model --data 'test/*.tsv.gz' --json
  psrt eval --model model --data 'test/*.tsv.gz' --workers 4 --servers 2`,
	}
	f.register(c)
	c.Flags().StringVar(&by, "metrics-by", "", "a `field` (name, or number from 0) of few values: the figures of each, too")
	c.Flags().StringVar(&asJSON, "json", "", "print one JSON object on stdout, or into `file`")
	c.Flags().Lookup("json").NoOptDefVal = "-"
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		r, err := f.evaluate(ctx, c, by)
		if err != nil || r == nil {
			return err
		}
		r.Warnings = f.ranks.display().warnFigures("evaluated", r.Report)
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

// evaluate is the figures, nil at ranks that do not have them.
func (f *modelFlags) evaluate(ctx context.Context, c *cobra.Command, by string) (*evaluation, error) {
	res, yes, err := f.together(ctx, c, train.Predict{Labelled: true}, func(j *train.Job, names []string) error {
		if by == "" {
			return nil
		}
		field, err := fieldOf("--metrics-by", by, names)
		j.MetricsBy = &field
		return err
	})
	if err != nil || yes && res == nil {
		return nil, err
	}
	if yes {
		return &evaluation{Report: res.Scored.Figures, Slots: res.Slots, DataNotes: res.DataNotes}, nil
	}
	s, src, err := f.open(ctx, c, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := evaluate(ctx, s, src, f.threads, by)
	if err == nil {
		r.DataNotes = src.Describe().Notes
	}
	return r, cli.InterruptedOr(ctx, err)
}

// evaluation is what eval prints.
type evaluation struct {
	*metric.Report
	Slots []metric.SlotReport `json:"slots,omitempty"`
	// DataNotes are lines for people on how the files are read.
	DataNotes []string `json:"data_notes,omitempty"`
	// Warnings are lines for people about figures that are missing or mislead.
	Warnings []string `json:"warnings,omitempty"`
}

// fieldOf finds a flag's field by its name, or its number.
func fieldOf(flag, by string, names []string) (uint16, error) {
	i := slices.Index(names, by)
	if i < 0 {
		n, err := strconv.ParseUint(by, 10, 16)
		if i = int(n); err != nil || i >= len(names) {
			return 0, cli.Usagef("%s %s: there is no such field; there are %d, by name or by number from 0", flag, by, len(names))
		}
	}
	return uint16(i), nil
}

// evaluate is a model's figures on data, and those of each value of the field by.
func evaluate(ctx context.Context, s *train.Scorer, src *dataset.Source, threads int, by string) (*evaluation, error) {
	acc, slots := metric.NewAccumulator(s.Info.Model.Task), (*metric.Slots)(nil)
	var names *dataset.Names
	if by != "" {
		field, err := fieldOf("--metrics-by", by, src.Describe().FieldNames)
		if err != nil {
			return nil, err
		}
		slots, names = metric.NewSlots(s.Info.Model.Task, field), dataset.NewNames(field, metric.MaxSlots)
		src.NoteNames(names)
	}
	err := s.Score(ctx, src, train.ScoreOptions{Threads: threads}, func(l *train.ScoredLeaf) error {
		acc.Add(l.Preds, l.Rows.Labels)
		return train.CountSlots(slots, l.Preds, l.Rows)
	})
	r := &evaluation{Report: acc.Report()}
	for _, slot := range slots.Slots() {
		r.Slots = append(r.Slots, metric.NewSlotReport(slot, names.Of(slot.ID), slots.Of(slot).Report()))
	}
	return r, err
}
