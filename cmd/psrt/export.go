package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/train"
	"psrt/sched/train/metric"
	"psrt/tiers/ckpt"
	"psrt/tiers/export"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
)

// exportFlags are psrt export's.
type exportFlags struct {
	checkpoint, out string
	format          *cli.Choice
	quantize        *cli.Choice
	filter          *cli.Choice
	state           bool
	memory          cli.Bytes
	threads         int
	data            string
	json            string
	quiet           bool
}

func newExport() *cobra.Command {
	f := &exportFlags{format: cli.NewChoice(export.Inference, export.Inference, export.Text, export.Safetensors),
		quantize: cli.NewChoice("", "", quant.F16.String(), quant.I8.String()),
		filter:   cli.NewChoice("", "", "serving", "none"), memory: export.DefaultMemory}
	c := &cobra.Command{
		Use:   "export",
		Short: "Make of a trained model what others read",
		Long: `Writes a model as files that need no server and no parameter server to read:

  inference    weights only, to be mapped into memory: psrt eval and psrt predict
               read it at once, whatever its size
  text         a row a line, every bit of a float kept; psrt import reads it
  safetensors  tensors, for Python and others

Of a history the newest generation is taken, of PLACE@N generation N. DIR holds
the old export or the new one, whole, at every moment. psrt export verify DIR
reads all of an export and says whether it is as it was written.`,
		Example: `  psrt export --checkpoint model --out serving --quantize fp16
  psrt export --checkpoint model --out serving --quantize int8 --data test.libffm
  psrt export --checkpoint model --out dump --format text --state
  psrt export --checkpoint history@7 --out tensors --format safetensors
  psrt export verify serving`,
	}
	fl := c.Flags()
	fl.StringVar(&f.checkpoint, "checkpoint", "", "`place` of the model: what psrt train --out or --checkpoint wrote")
	fl.StringVar(&f.out, "out", "", "`directory` for the export: new, empty, or an older export")
	fl.Var(f.format, "format", "what to write")
	fl.Var(f.quantize, "quantize", "keep table weights in fewer bytes")
	fl.Var(f.filter, "filter", "serving leaves out rows below base_threshold, those unseen for more than delta_keep_days, and, for inference, rows of zeros (serving for inference, none for others)")
	fl.BoolVar(&f.state, "state", false, "write what the optimizer keeps, too (text, safetensors)")
	fl.Var(&f.memory, "memory", "memory for sorting; larger tables are sorted on the disk of --out")
	cli.ZeroIsUnset(fl, "memory")
	fl.IntVar(&f.threads, "threads", runtime.NumCPU(), "files that are read at once")
	fl.StringVar(&f.data, "data", "", "evaluate the model and its export on these `files` and say both (inference)")
	fl.StringVar(&f.json, "json", "", "print one JSON object on stdout, or into `file`")
	fl.Lookup("json").NoOptDefVal = "-"
	fl.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	c.RunE = func(*cobra.Command, []string) error { return f.run() }
	c.AddCommand(newExportVerify())
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return cli.Usagef("export takes no argument %q; it has the command verify, and flags: see psrt export --help", args[0])
		}
		return nil
	}
	for _, sub := range c.Commands() {
		sub.SetFlagErrorFunc(cli.FlagError)
	}
	return c
}

func (f *exportFlags) check() error {
	switch {
	case f.checkpoint == "":
		return cli.Usagef("--checkpoint is missing: the directory that psrt train --out or --checkpoint wrote")
	case f.out == "":
		return cli.Usagef("--out is missing: a directory for the export")
	case noNumber("out", f.out) != nil:
		return noNumber("out", f.out)
	case f.threads < 1:
		return cli.Usagef("--threads %d: must be at least 1", f.threads)
	case f.state && f.format.Value == export.Inference:
		return cli.Usagef("--state: an inference model has no optimizer state; choose --format text or safetensors")
	case f.quantize.Value != "" && f.format.Value == export.Text:
		return cli.Usagef("--quantize: text keeps every bit; choose --format inference or safetensors")
	case f.data != "" && f.format.Value != export.Inference:
		return cli.Usagef("--data: only --format inference can be evaluated")
	}
	return nil
}

// exported is what --json prints.
type exported struct {
	Out    string `json:"out"`
	Format string `json:"format"`
	*export.Content
	// Full and Export are the figures on --data.
	Full   *metric.Report `json:"evaluated_model,omitempty"`
	Export *metric.Report `json:"evaluated_export,omitempty"`
	// Warnings are lines for people about the data and these figures.
	Warnings []string `json:"warnings,omitempty"`
}

func (f *exportFlags) run() error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	location, number := ckpt.SplitPlace(f.checkpoint)
	m, err := ckpt.OpenAt(ctx, location, number)
	if err != nil {
		return badPlace(cli.InterruptedOr(ctx, err))
	}
	out, err := cli.OpenOutput("json", f.json)
	if err != nil {
		return err
	}
	show := newDisplay(os.Stderr, f.quiet)
	o := export.Options{Kind: f.format.Value, State: f.state, Memory: int64(f.memory), Workers: f.threads,
		Serving: f.filter.Value == "serving" || f.filter.Value == "" && f.format.Value == export.Inference,
		Views:   train.DenseViews(m.Meta), Progress: show.exporting}
	if f.quantize.Value != "" {
		if o.Quantize, err = quant.Parse(f.quantize.Value); err != nil {
			return err
		}
	}
	res := exported{Out: f.out, Format: o.Kind}
	res.Content, err = export.Write(ctx, m, f.out, o)
	show.end()
	if err != nil {
		return cli.InterruptedOr(ctx, m.Advise(ctx, err))
	}
	if f.data != "" {
		err = f.compare(ctx, show, &res)
	}
	if err != nil {
		return cli.InterruptedOr(ctx, err)
	}
	if out != nil {
		return errors.Join(json.NewEncoder(out).Encode(res), out.Close())
	}
	printExport(os.Stdout, &res)
	return nil
}

// compare evaluates the model and its export on the same rows.
func (f *exportFlags) compare(ctx context.Context, show *display, res *exported) error {
	location, number := ckpt.SplitPlace(f.checkpoint)
	for _, e := range []struct {
		place  string
		number uint64
		into   **metric.Report
	}{{location, number, &res.Full}, {f.out, 0, &res.Export}} {
		s, err := train.LoadScorer(ctx, e.place, e.number)
		if err != nil {
			return err
		}
		defer s.Close()
		src, err := openData(ctx, f.data, s.Info.Reading, show)
		if err != nil {
			return err
		}
		r, err := evaluate(ctx, s, src, f.threads, "")
		if err != nil {
			return err
		}
		*e.into = r.Report
		if e.into == &res.Full { // the second reading tells the same
			res.Warnings = show.warnFigures("evaluated", r.Report)
			show = &display{w: io.Discard, quiet: true}
		}
	}
	return nil
}

func newExportVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify DIR", Short: "Read all of an export: is it as it was written?",
		Long: "Compares every file with the SHA-256 in EXPORT.json, and of an inference model\nevery block with its checksum and every key with its place. Exit 2 if not.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("%s: %d directories are named, want 1", c.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := cli.Interruptible()
			defer stop()
			kind, content, err := export.Verify(ctx, args[0])
			switch {
			case errors.Is(err, outdir.ErrNone):
				return cli.Usagef("%w", err)
			case err != nil:
				return cli.InterruptedOr(ctx, err)
			}
			printVerified(os.Stdout, args[0], kind, content)
			return nil
		},
	}
}
