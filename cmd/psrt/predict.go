package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"psrt/cmd/internal/cli"
	"psrt/sched/train"
)

// predictFlags say where scores go.
type predictFlags struct {
	modelFlags
	out, json            string
	emit, emitID, fields string
}

func newPredict() *cobra.Command {
	f := &predictFlags{}
	c := &cobra.Command{
		Use:   "predict",
		Short: "Print a score for every row",
		Long: `Prints one score a line, in the order of the rows: the probability of a click
(ctr) or the value (regression). Labels are not looked at and may be absent.

Several processes (--workers, mpirun, srun, --rank) share the rows, and write the
same bytes as one. Rows of the model lie in each of them, in --servers that this
job starts, or at servers that serve others (--live); no row is made there.

--emit NAME writes NAME.ids.npy and NAME.vectors.npy for an index: of each row an id,
and the sum of value times embedding over its features (of --emit-fields).`,
		Example: `  psrt predict --model model --data new.libffm > scores
  psrt predict --model model --data 'new/*.tsv.gz' --out scores --workers 4 --servers 2
  psrt predict --model model --data new.libffm --out scores --live 10.0.0.5:7700 --token-file token
  psrt predict --model model --data items.csv --schema items.yaml --emit items --emit-id item --emit-fields item,genre`,
	}
	f.register(c)
	fl := c.Flags()
	fl.StringVar(&f.out, "out", "", "`file` for the scores (stdout)")
	fl.StringVar(&f.emit, "emit", "", "write NAME.ids.npy (uint64) and NAME.vectors.npy (float32, a line a row), and scores only to --out; `NAME` may have a directory")
	fl.StringVar(&f.emitID, "emit-id", "", "the `field` (name, or number from 0) whose value is a row's id (the row's number, from 0)")
	fl.StringVar(&f.fields, "emit-fields", "", "the `fields`, comma separated, whose embeddings are added up (all)")
	fl.StringVar(&f.json, "json", "", "print one JSON object about what was scored on stdout, or into `file`")
	fl.Lookup("json").NoOptDefVal = "-"
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := cli.Interruptible()
		defer stop()
		if f.emit == "" && (f.emitID != "" || f.fields != "") {
			return cli.Usagef("--emit-id and --emit-fields are for --emit NAME: say what the files' names begin with")
		}
		if f.json == "-" && f.out == "" && f.emit == "" {
			return cli.Usagef("--json and scores would both be printed: give --out FILE, or --json=FILE")
		}
		p := train.Predict{Out: f.out}
		if f.emit != "" {
			p.Emit = &train.Emit{Name: f.emit}
		}
		res, yes, err := f.together(ctx, c, p, func(j *train.Job, names []string) error { return f.choose(j.Predict.Emit, names) })
		if err != nil || yes && res == nil {
			return err
		}
		scored := (*train.Scored)(nil)
		if yes {
			scored = res.Scored
		} else if scored, err = f.alone(ctx, c, p.Emit); err != nil {
			return cli.InterruptedOr(ctx, err)
		}
		if text := scored.Warning(); text != "" {
			f.ranks.display().warn(text)
		}
		if f.json == "" {
			return nil
		}
		out, err := cli.OpenOutput("json", f.json)
		if err != nil {
			return err
		}
		return errors.Join(json.NewEncoder(out).Encode(scored), out.Close())
	}
	return c
}

// choose finds the fields that the user has named.
func (f *predictFlags) choose(e *train.Emit, names []string) error {
	return e.Choose(f.emitID, f.fields, func(flag, by string) (uint16, error) { return fieldOf(flag, by, names) })
}

// alone scores in this process.
func (f *predictFlags) alone(ctx context.Context, c *cobra.Command, emit *train.Emit) (scored *train.Scored, err error) {
	begin := time.Now()
	s, src, err := f.open(ctx, c, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := f.choose(emit, src.Describe().FieldNames); err != nil {
		return nil, err
	}
	scored = &train.Scored{}
	if scored.Features, err = s.Rows(); err != nil {
		return nil, err
	}
	scores := io.Writer(os.Stdout)
	if emit != nil {
		scores = nil
	}
	out, err := s.NewOutputs(f.out, scores, emit)
	if err != nil {
		return nil, err
	}
	if err := out.End(s.Score(ctx, src, train.ScoreOptions{Threads: f.threads}, out.Add)); err != nil {
		return nil, err
	}
	scored.NotFinite = out.NotFinite()
	scored.Rows, scored.Seconds = out.Rows(), time.Since(begin).Seconds()
	scored.FeaturesAfter, err = s.Rows()
	return scored, err
}
