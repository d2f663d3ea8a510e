package dataset

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// How much is looked at before anything is believed: of the first file enough
// to find the fields, of every other file its head.
const (
	sniffRows      = 20000
	sniffBytes     = 8 << 20
	sniffHeadRows  = 100
	sniffHeadBytes = 64 << 10
)

// head is the beginning of one file.
type head struct {
	path     string
	lines    [][]byte
	numbers  []int
	columns  bool // see rows
	comments int  // lines that were skipped before the first
	most     int  // rows that are looked at: one line more is here, as the first may be a header
	packed   bool // compressed
	// without is the reason why the file has no rows, "" where it has some, and refusal the
	// error about it.
	without string
	refusal *Error
}

// rows are the lines but for a header.
func (h *head) rows(header bool) [][]byte {
	lines := h.lines
	if header {
		lines = lines[1:]
	}
	return lines[:min(len(lines), h.most)]
}

// readHead reads the first rows of a file, and refuses what is no text.
func readHead(ctx context.Context, path string, rows, size int, o *Options) (*head, error) {
	in, err := openRows(ctx, path, o, make([]byte, sniffHeadBytes), nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if l, ok := in.(*lines); ok {
		if err := l.fill(); err != nil {
			return nil, err
		}
		why := refuse(l.buf[:min(l.end, 4096)])
		if p, ok := l.in.(*piped); ok && why != "" {
			return nil, fileError(path, nil, "what the pipe command gives is no text with rows: %s; try it by hand: %s", strings.TrimPrefix(why, "the file is "), p.byHand())
		}
		if why != "" {
			return nil, fileError(path, nil, "%s", why)
		}
	}
	h := &head{path: path, columns: in.columns(), most: rows, packed: packed(in)}
	if err := h.read(in, size); err != nil {
		return nil, err
	}
	if l, ok := in.(*lines); ok {
		h.comments = l.comments
	}
	if len(h.lines) == 0 {
		h.without = asideEmpty
		h.refusal = fileError(path, ErrNoRows, "the file is empty; leave it out or put rows in it")
		if h.comments > 0 {
			h.refusal = fileError(path, ErrNoRows, "the file has %d comment line(s), which begin with #, and no row; leave it out or put rows in it", h.comments)
		}
		if l, ok := in.(*lines); ok {
			if p, ok := l.in.(*piped); ok {
				h.without = asidePipe
				h.refusal = fileError(path, ErrNoRows, "the pipe command gave no row; try it by hand: %s", p.byHand())
			}
		}
	}
	return h, nil
}

// read reads the head's lines, and no more of them once they have size bytes.
func (h *head) read(in rows, size int) error {
	for total := 0; len(h.lines) <= h.most && total < size; {
		line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		total += len(line)
		h.lines = append(h.lines, slices.Clone(line))
		h.numbers = append(h.numbers, in.number())
	}
	return nil
}

// sniffer gathers what the heads of all files say.
type sniffer struct {
	src    *Source
	csv    *csvParser
	batch  Batch
	rows   int
	labels float64
	fields int
	found  found
}

// headerAlone notes that a file has a header and no rows.
func (s *sniffer) headerAlone(h *head) {
	o := &s.src.opts
	if len(h.lines) != 1 || o.Schema == nil {
		return
	}
	if _, isHeader, bad := newCSVParser(o.Schema, o.rule()).layoutOf(o.Schema, h); bad == nil && isHeader {
		h.without = asideHeader
		h.refusal = fileError(h.path, ErrNoRows, "the file has a header and no rows; leave it out or put rows in it")
	}
}

// decide settles the format, from the first file unless it is given.
func (s *sniffer) decide(h *head) error {
	o := &s.src.opts
	if o.Format == Auto && o.Schema != nil {
		o.Format = CSV
	}
	if o.Format != Auto {
		return nil
	}
	switch f := detectAll(h.lines); {
	case f == undecided:
		return fileError(h.path, nil, "the first %d rows have a label and no feature, so the format cannot be told; give --format", len(h.lines))
	case f == "" && len(h.lines) > 1 && looksLikeHeader(h.lines[0]) && detect(h.lines[1]) != "":
		return &Error{Path: h.path, Line: h.numbers[0], Msg: fmt.Sprintf("the first line looks like a header (%s), and %s files have none; remove it", quote(h.lines[0]), detect(h.lines[1]))}
	case f == "":
		return &Error{Path: h.path, Line: h.numbers[0], Msg: unknownFormat(h.lines[0])}
	case f == LibSVM && s.realLabels(h):
		o.Format = LibFM
	default:
		o.Format = f
	}
	return nil
}

// realLabels: libfm files are told from libsvm by labels other than 0 and 1.
func (s *sniffer) realLabels(h *head) bool {
	rule := labelRule{task: CTR, negative: unknownNegative}
	for _, line := range h.lines {
		if _, e := rule.parse(line[:wordEnd(line, 0)], 0); e != nil {
			return true
		}
	}
	return false
}

// parser makes the parser for the format, still open as to fields.
func (s *sniffer) parser(h *head) (lineParser, error) {
	o := s.src.opts
	rule := o.rule()
	switch o.Format {
	case Criteo:
		for _, line := range h.rows(false) {
			rule.note(line[:cellEnd(line, 0)])
		}
		return newCriteoParser(rule), nil
	case CSV:
		if err := s.statistics(h); err != nil {
			return nil, err
		}
		return s.csv, nil
	}
	for _, line := range h.rows(false) {
		rule.note(line[:wordEnd(line, 0)])
	}
	p := &sparseParser{labels: rule, fielded: o.Format == LibFFM, fields: maxFields}
	if o.Fields > 0 {
		p.fields = o.Fields
	}
	return p, nil
}

// look parses one head: what is wrong early in a file is told before training.
func (s *sniffer) look(file int, h *head) error {
	skip, in := 0, s.src.inputs[file]
	in.first = h.numbers[0]
	if s.csv != nil {
		layout, isHeader, e := s.csv.layoutOf(s.src.opts.Schema, h)
		if e != nil {
			return e.at(h.path, h.numbers[0])
		}
		in.layout, in.header = layout, isHeader
		if isHeader {
			skip = 1
		}
	}
	s.note(h, in)
	for i, line := range h.rows(skip == 1) {
		s.batch.Reset()
		if e := s.src.parser.parse(line, in, &s.batch); e != nil {
			e = explain(s.src.parser, line, e, skip+i == 0)
			f := detectAll(h.lines)
			other := f != "" && f != undecided && !s.sameGrammar(f)
			if file > 0 && other {
				return fileError(h.path, nil, "the file looks like %s, but %s is read as %s; all files of a job must have one format",
					f, s.src.files[0], s.src.opts.Format)
			}
			if other && i == 0 && s.csv == nil { // the file, not a row that is cut short
				e.msg += fmt.Sprintf("; it looks like %s: give --format %s", f, f)
			}
			return e.at(h.path, h.numbers[skip+i])
		}
		s.rows++
		s.labels += float64(s.batch.Labels[0])
		for _, f := range s.batch.Fields {
			s.fields = max(s.fields, int(f)+1)
		}
	}
	return nil
}

func (s *sniffer) sameGrammar(f Format) bool {
	return f == s.src.opts.Format || f == LibSVM && s.src.opts.Format == LibFM
}

// layoutOf is layout for the head of a file.
func (p *csvParser) layoutOf(s *Schema, h *head) (layout []int, isHeader bool, e *lineError) {
	if !h.columns {
		return p.layout(s, h.lines)
	}
	return p.inOrder, false, nil
}

// statistics completes the schema from the first file: means, deviations and
// quantiles of numeric columns that do not bring their own.
func (s *sniffer) statistics(h *head) error {
	schema := s.src.opts.Schema
	s.csv = newCSVParser(schema, s.src.opts.rule())
	layout, isHeader, e := s.csv.layoutOf(schema, h)
	if e != nil {
		return e.at(h.path, h.numbers[0])
	}
	samples := make([][]float64, len(schema.Columns))
	first := 0
	if isHeader {
		first = 1
	}
	for k, line := range h.rows(isHeader) {
		e := s.csv.each(line, layout, func(column int, cell []byte, start int) *lineError {
			c := &s.csv.columns[column]
			if c.Kind == "label" && c.Positive == nil && c.PositiveAbove == nil {
				s.csv.labels.note(cell)
			}
			if c.Kind != "numeric" || s.csv.absent(cell) {
				return nil
			}
			x, e := c.float(cell, start)
			samples[column] = append(samples[column], x)
			return e
		})
		if e != nil {
			return explain(s.csv, line, e, false).at(h.path, h.numbers[first+k])
		}
	}
	for k := range schema.Columns {
		schema.Columns[k].complete(samples[k])
	}
	s.csv = newCSVParser(schema, s.csv.labels)
	return nil
}

// complete fills in what a transform needs and the schema does not give.
func (c *Column) complete(sample []float64) {
	switch c.Transform {
	case "standardize":
		mean, std := moments(sample)
		if c.Mean == nil {
			c.Mean = &mean
		}
		if c.Std == nil {
			c.Std = &std
		}
	case "bucketize":
		if c.Boundaries == nil {
			c.Boundaries = quantiles(sample, c.Buckets)
		}
	}
}

// moments are mean and standard deviation; the deviation of a constant is 1.
func moments(sample []float64) (mean, std float64) {
	n := float64(max(len(sample), 1))
	for _, x := range sample {
		mean += x / n
	}
	for _, x := range sample {
		std += (x - mean) * (x - mean) / n
	}
	if std = math.Sqrt(std); !(std > 0) || math.IsInf(std, 0) {
		std = 1
	}
	return mean, std
}

// quantiles cut a sample into n parts, fewer where values repeat.
func quantiles(sample []float64, n int) []float64 {
	slices.Sort(sample)
	cuts := make([]float64, 0, n)
	for i := 1; i < n && len(sample) > 0; i++ {
		cuts = append(cuts, sample[i*len(sample)/n])
	}
	return slices.Compact(cuts)
}

func (d *Description) String() string {
	return fmt.Sprintf("%s, %d fields, %d files, %s", d.Format, d.Fields, len(d.Files), bytesText(d.Bytes))
}
