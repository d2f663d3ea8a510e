package dataset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"psrt/sched/yamlkeys"
)

// Source is a validated list of files with one format. It is read-only, and any
// number of readers may run over it at once.
type Source struct {
	opts   Options
	files  []string
	inputs []*input
	parser lineParser
	about  Description
	// A stream has no files of its own: see NewStream.
	feed Feed
	pass int64

	packed bool // some file is compressed
	warned warnings
}

var formats = []string{string(Auto), string(Criteo), string(LibSVM), string(LibFFM), string(LibFM), string(CSV)}

func (o Options) withDefaults() Options {
	o.Format = cmp.Or(o.Format, Auto)
	o.Task = cmp.Or(o.Task, CTR)
	o.MaxLine = cmp.Or(o.MaxLine, defaultMaxLine)
	return o
}

func (o Options) validate() error {
	switch {
	case !slices.Contains(formats, string(o.Format)):
		return &Error{Msg: fmt.Sprintf("format %q is unknown%s; known are %s", o.Format, yamlkeys.Meant(string(o.Format), formats), strings.Join(formats, ", "))}
	case o.Task != CTR && o.Task != Regression:
		return &Error{Msg: fmt.Sprintf("task %q is unknown; known are ctr, regression", o.Task)}
	case o.Fields < 0 || o.Fields > maxFields:
		return &Error{Msg: fmt.Sprintf("%d fields, must be 1 to %d (0: found from the data)", o.Fields, maxFields)}
	case o.MaxLine < 1 || o.MaxLine > 1<<30:
		return &Error{Msg: fmt.Sprintf("longest line of %d bytes, must be 1 to %d", o.MaxLine, 1<<30)}
	case o.PipeTimeout < 0:
		return &Error{Msg: fmt.Sprintf("pipe timeout of %v, must not be negative", o.PipeTimeout)}
	case o.Format == CSV && o.Schema == nil:
		return &Error{Msg: "format csv needs a schema; give --schema FILE.yaml with the name and kind of each column"}
	case o.Schema != nil && o.Format != CSV && o.Format != Auto:
		return &Error{Msg: fmt.Sprintf("a schema goes with format csv, not %s; leave one of them out", o.Format)}
	}
	if o.Schema != nil {
		if err := o.Schema.Validate(); err != nil {
			return &Error{Msg: "schema: " + err.Error(), Err: err}
		}
	}
	return nil
}

// Open expands the paths, looks at the beginning of every file and settles the
// format and the number of fields. Most bad input is refused here, with an
// *Error. Files that a directory or pattern brought and that have no rows are passed over,
// which the description says; where it has no other, and where a file was named itself, they
// are refused, with ErrNoRows. The files are not kept open. The end of ctx ends it, and a
// command that gives the rows.
func Open(ctx context.Context, paths []string, opts Options) (*Source, error) {
	return open(ctx, opts, func(skip *skips) ([]listed, error) { return expand(paths, skip) })
}

// OpenFound is Open for files that a look into directories has found, which from names: those
// without rows are passed over. ErrNoRows: all are.
func OpenFound(ctx context.Context, from string, found []Arrival, opts Options) (*Source, error) {
	return open(ctx, opts, func(skip *skips) (files []listed, err error) {
		for _, a := range found {
			files = append(files, listed{a.Path, from})
		}
		skip.seen = len(files)
		return files, nil
	})
}

func open(ctx context.Context, opts Options, list func(*skips) ([]listed, error)) (*Source, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Schema != nil {
		opts.Schema = opts.Schema.clone()
	}
	skip := &skips{}
	files, err := list(skip)
	if err != nil {
		return nil, err
	}
	s := &Source{opts: opts}
	if err := s.sniff(ctx, files, skip); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	if line := skip.line(); line != "" {
		s.about.Notes = slices.Insert(s.about.Notes, 0, line)
	}
	return s, nil
}

// sniff looks at the beginning of each file, and keeps those that have rows.
func (s *Source) sniff(ctx context.Context, files []listed, skip *skips) error {
	look, read := sniffer{src: s}, make(map[string]bool)
	for _, f := range files {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		first := len(s.files) == 0
		rows, size := sniffHeadRows, sniffHeadBytes
		if first {
			rows, size = sniffRows, sniffBytes
		}
		h, err := readHead(ctx, f.path, rows, size, &s.opts)
		if err != nil {
			return err
		}
		look.headerAlone(h)
		if h.refusal != nil && f.from == "" {
			return h.refusal
		}
		if h.refusal != nil {
			skip.add(f, h.without)
			continue
		}
		id, err := Identify(f.path)
		if err != nil {
			return err
		}
		s.about.Bytes += id.Size
		s.packed = s.packed || h.packed
		s.files, s.inputs = append(s.files, f.path), append(s.inputs, &input{path: f.path, id: id})
		read[f.from] = true
		if first {
			if err := look.decide(h); err != nil {
				return err
			}
			if s.parser, err = look.parser(h); err != nil {
				return err
			}
		}
		if err := look.look(len(s.files)-1, h); err != nil {
			return err
		}
	}
	if err := skip.nothingLeft(files, read); err != nil {
		return err
	}
	if len(s.files) == 0 {
		return &Error{Msg: "no data file has come", Err: ErrNoRows}
	}
	if err := look.found.oneOrder(); err != nil {
		return err
	}
	s.settle(&look)
	return nil
}

// settle fixes the number of fields and describes the source.
func (s *Source) settle(look *sniffer) {
	d := &s.about
	switch p := s.parser.(type) {
	case *sparseParser:
		if s.opts.Fields == 0 {
			s.opts.Fields = max(look.fields, 1)
			p.fields, p.sniffed = s.opts.Fields, look.rows
		}
		d.FieldNames = numbered(s.opts.Fields)
	case *criteoParser:
		s.opts.Fields = criteoFields
		d.FieldNames = criteoNames()
	case *csvParser:
		d.FieldNames = s.opts.Schema.fieldNames()
		s.opts.Fields = len(d.FieldNames)
	}
	d.Format, d.Fields, d.Files = s.opts.Format, s.opts.Fields, s.files
	d.Notes = look.found.notes(len(s.files))
	d.SniffedRows, d.MeanLabel = look.rows, look.labels/float64(look.rows)
}

// Describe says what Open learned.
func (s *Source) Describe() Description {
	d := s.about
	d.FieldNames, d.Files, d.Notes = slices.Clone(d.FieldNames), slices.Clone(d.Files), slices.Clone(d.Notes)
	return d
}

// Options are the options with all that was found filled in: the format, the
// number of fields, means and boundaries of a schema. Open the validation and
// test data, and later the data to predict on, with these.
func (s *Source) Options() Options {
	o := s.opts
	if o.Schema != nil {
		o.Schema = o.Schema.clone()
	}
	return o
}
