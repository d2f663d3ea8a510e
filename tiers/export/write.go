package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"psrt/tiers/ckpt"
	"psrt/tiers/export/extsort"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
	"psrt/tiers/table"
)

// exporter is one export under way.
type exporter struct {
	ctx   context.Context
	model *ckpt.Model
	opts  Options
	in    *outdir.Incoming
	names names
}

// Write exports a model into dir, in place of the export that is there, if one
// is. When it fails the old one is untouched.
func Write(ctx context.Context, m *ckpt.Model, dir string, opts Options) (*Content, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.State && m.WeightsOnly {
		return nil, outdir.Refuse("export: the model in %s has no optimizer state; export it without", m.Dir())
	}
	in, err := outdir.Begin(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Abort() }() // nothing after Commit
	x := &exporter{ctx: ctx, model: m, opts: opts, in: in, names: fileNames(&m.Manifest)}
	c := &Content{State: opts.State, Source: sourceOf(&m.Manifest)}
	table, dense := x.tableTensors, x.denseTensors
	switch opts.Kind {
	case Inference:
		table = x.tableMapped
	case Text:
		table, dense = x.tableText, x.denseText
	}
	for i := range m.Tables {
		t, err := table(&m.Tables[i], x.names.tables[i])
		if err != nil {
			return nil, err
		}
		c.Tables = append(c.Tables, *t)
	}
	for i := range m.Dense {
		d, err := dense(&m.Dense[i], x.names.dense[i])
		if err != nil {
			return nil, err
		}
		c.Dense = append(c.Dense, *d)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return c, in.Commit(opts.Kind, format, b)
}

func (x *exporter) progress(table, doing string, rows, of int64) {
	if x.opts.Progress != nil {
		x.opts.Progress(Progress{Table: table, Doing: doing, Rows: rows, Of: of})
	}
}

// file writes one file of the export.
func (x *exporter) file(name string, write func(*outdir.File) error) (outdir.FileInfo, error) {
	f, err := x.in.Create(name)
	if err != nil {
		return outdir.FileInfo{}, err
	}
	err = write(f)
	info, closing := f.Close()
	if err == nil {
		err = closing
	}
	return info, err
}

// table reads a table's rows, has them written, and describes the file.
func (x *exporter) table(spec *table.Spec, file string, e quant.Encoding, number func(uint64) uint64, write func(*outdir.File, *rows) error) (*Table, error) {
	r, err := x.read(spec, e, number)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.sorter.Close() }() // again, after an error
	info, err := x.file(file, func(f *outdir.File) error { return write(f, r) })
	if err != nil {
		return nil, err
	}
	r.info.File, r.info.Bytes = info.Name, info.Bytes
	if err := r.sorter.Close(); err != nil {
		return nil, x.explainSpill(err)
	}
	return &r.info, nil
}

// explainSpill adds to an error of the sorter what it was about.
func (x *exporter) explainSpill(err error) error {
	var twice *extsort.DuplicateError
	var path *fs.PathError
	switch {
	case errors.As(err, &twice):
		return fmt.Errorf("export: the model in %s has a row twice (%w); its checkpoint is damaged: psrt checkpoint verify %s", x.model.Dir(), err, x.model.Dir())
	case errors.As(err, &path):
		return outdir.Explain("sorting in", path.Path, path.Err)
	}
	return err
}
