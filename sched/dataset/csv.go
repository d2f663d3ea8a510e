package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"psrt/csrc/decimal"
)

// csvParser reads lines by a schema. A feature column is a field, numbered in
// the schema's order. What a cell becomes:
//
//	numeric           (NumberKey(field), transformed number)
//	numeric bucketize (Key(field, bucket), 1)
//	categorical       (TextKey(field, cell), 1)
//	multi             (TextKey(field, value), 1/n or 1) for each value
//	missing           (MissingKey(field), 1)
type csvParser struct {
	labels  labelRule
	sep     []byte
	trim    bool
	missing [][]byte
	columns []csvColumn
	inOrder []int // layout of a file without one of its own
	names   *Names
}

type csvColumn struct {
	Column
	field   int // -1: not a feature
	sep     []byte
	missing uint64
	number  uint64
}

func newCSVParser(s *Schema, labels labelRule) *csvParser {
	p := &csvParser{labels: labels, sep: []byte(s.separator()), trim: s.trim()}
	for _, m := range s.Missing {
		p.missing = append(p.missing, []byte(m))
	}
	field := 0
	for _, c := range s.Columns {
		x := csvColumn{Column: c, field: -1, sep: []byte(c.Separator)}
		if len(x.sep) == 0 {
			x.sep = []byte("|")
		}
		if c.Kind != "label" && c.Kind != "ignored" {
			x.field, x.missing, x.number = field, MissingKey(field), NumberKey(field)
			field++
		}
		p.columns = append(p.columns, x)
		p.inOrder = append(p.inOrder, len(p.inOrder))
	}
	return p
}

func (p *csvParser) parse(line []byte, in *input, b *Batch) *lineError {
	keys, fields, values := b.Keys, b.Fields, b.Values
	var label float32
	layout := in.layout
	if layout == nil {
		layout = p.inOrder
	}
	e := p.each(line, layout, func(column int, cell []byte, start int) (e *lineError) {
		c := &p.columns[column]
		switch {
		case c.Kind == "label":
			if string(cell) == c.Name && p.repeatsHeader(line, layout) {
				return badLine(0, "the line holds the column names again; files that were put one behind the other have a header each: keep the first alone")
			}
			label, e = p.label(c, cell, start)
		case c.field < 0:
		case c.Kind == "multi" && !p.absent(cell):
			keys, fields, values = c.multi(cell, p.trim, p.names, keys, fields, values)
		default:
			var key uint64
			var value float32
			key, value, e = p.single(c, cell, start)
			if p.names.wants(c.field) {
				p.note(key, c, cell)
			}
			keys, fields, values = append(keys, key), append(fields, uint16(c.field)), append(values, value)
		}
		return e
	})
	if e != nil {
		return e
	}
	return b.close(label, keys, fields, values)
}

// each calls visit for every cell of the line that has a column.
func (p *csvParser) each(line []byte, layout []int, visit func(column int, cell []byte, start int) *lineError) *lineError {
	i := 0
	for at, column := range layout {
		if i > len(line) {
			return badLine(len(line), "the line has %d cells, the schema has %d; mend the line or the schema%s", at, len(layout), otherSeparator(line, len(layout)))
		}
		cell, start, next, e := p.cut(line, i)
		if e != nil {
			return e
		}
		i = next
		if column < 0 {
			continue
		}
		if e := visit(column, cell, start); e != nil {
			return e
		}
	}
	if i <= len(line) {
		return badLine(i, "the line has %d cells, the schema has %d; mend the line or the schema%s", p.count(line), len(layout), otherSeparator(line, len(layout)))
	}
	return nil
}

// otherSeparator suggests a separator that cuts the line into the schema's number of cells, "" for none.
func otherSeparator(line []byte, cells int) string {
	for _, sep := range []string{"\t", ",", ";", "|"} {
		if cells > 1 && bytes.Count(line, []byte(sep)) == cells-1 {
			return fmt.Sprintf(", or set separator: %q in the schema, by which it has %d", sep, cells)
		}
	}
	return ""
}

// cut takes the cell that begins at i, without blanks and quotes around it.
// next is where the next cell begins, len(line)+1 behind the last.
func (p *csvParser) cut(line []byte, i int) (cell []byte, start, next int, e *lineError) {
	start = i
	if p.trim {
		for start < len(line) && isBlank(line[start]) && !bytes.HasPrefix(line[start:], p.sep) {
			start++
		}
	}
	if start < len(line) && line[start] == '"' {
		return p.cutQuoted(line, start)
	}
	end := len(line)
	next = len(line) + 1
	if j := bytes.Index(line[start:], p.sep); j >= 0 {
		end, next = start+j, start+j+len(p.sep)
	}
	cell = line[start:end]
	if p.trim {
		cell = bytes.TrimRight(cell, " \t")
	}
	return cell, start, next, nil
}

// cutQuoted takes a cell in quotes, in which "" stands for one quote.
func (p *csvParser) cutQuoted(line []byte, start int) (cell []byte, _, next int, e *lineError) {
	i, doubled := start+1, false
	for {
		j := bytes.IndexByte(line[i:], '"')
		if j < 0 {
			return nil, 0, 0, badLine(start, "the quote does not end on its line; line breaks inside quotes cannot be read, replace them")
		}
		i += j + 1
		if i == len(line) || line[i] != '"' {
			break
		}
		doubled, i = true, i+1
	}
	cell = line[start+1 : i-1]
	if doubled {
		cell = bytes.ReplaceAll(cell, []byte(`""`), []byte(`"`))
	}
	for i < len(line) && p.trim && isBlank(line[i]) && !bytes.HasPrefix(line[i:], p.sep) {
		i++
	}
	switch {
	case i == len(line):
		return cell, start, len(line) + 1, nil
	case bytes.HasPrefix(line[i:], p.sep):
		return cell, start, i + len(p.sep), nil
	}
	return nil, 0, 0, badLine(i, "text behind the closing quote; write a quote inside quotes twice")
}

func (p *csvParser) count(line []byte) int {
	n := 0
	for i := 0; i <= len(line); n++ {
		_, _, next, e := p.cut(line, i)
		if e != nil {
			return n
		}
		i = next
	}
	return n
}

func (p *csvParser) absent(cell []byte) bool {
	if len(cell) == 0 {
		return true
	}
	for _, m := range p.missing {
		if bytes.Equal(cell, m) {
			return true
		}
	}
	return false
}

func (p *csvParser) single(c *csvColumn, cell []byte, start int) (key uint64, value float32, e *lineError) {
	if p.absent(cell) {
		return c.missing, 1, nil
	}
	if c.Kind == "categorical" {
		return TextKey(c.field, cell), 1, nil
	}
	x, e := c.float(cell, start)
	if e != nil {
		return 0, 0, e
	}
	switch c.Transform {
	case "bucketize":
		bucket, exact := slices.BinarySearch(c.Boundaries, x)
		if exact {
			bucket++
		}
		return Key(c.field, uint64(bucket)), 1, nil
	case "log":
		x = math.Copysign(math.Log1p(math.Abs(x)), x)
	case "standardize":
		x = (x - *c.Mean) / *c.Std
	}
	v := float32(x)
	if math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
		return 0, 0, badLine(start, "%s: %s is beyond the range of float32; use transform: log", c.Name, quote(cell))
	}
	return c.number, v, nil
}

func (p *csvParser) note(key uint64, c *csvColumn, cell []byte) {
	p.names.note(key, func() string { return p.name(c, cell) })
}

// name is what the key of a cell stands for.
func (p *csvParser) name(c *csvColumn, cell []byte) string {
	switch {
	case p.absent(cell):
		return missingName
	case c.Kind != "numeric":
		return string(cell)
	case c.Transform != "bucketize":
		return c.Name
	}
	x, e := c.float(cell, 0)
	if e != nil || len(c.Boundaries) == 0 {
		return c.Name
	}
	bucket, exact := slices.BinarySearch(c.Boundaries, x)
	if exact {
		bucket++
	}
	switch {
	case bucket == 0:
		return fmt.Sprintf("below %v", c.Boundaries[0])
	case bucket == len(c.Boundaries):
		return fmt.Sprintf("from %v on", c.Boundaries[bucket-1])
	}
	return fmt.Sprintf("from %v to below %v", c.Boundaries[bucket-1], c.Boundaries[bucket])
}

func (c *csvColumn) float(cell []byte, start int) (float64, *lineError) {
	x, err := decimal.Float(string(cell), 64)
	if err == nil {
		return x, nil
	}
	if y, err := strconv.ParseFloat(string(cell), 64); err == nil && (math.IsNaN(y) || math.IsInf(y, 0)) {
		return 0, badLine(start, "%s: %s is not finite; list it under missing if it means no value", c.Name, quote(cell))
	}
	if errors.Is(err, strconv.ErrRange) {
		return 0, badLine(start, "%s: %s is beyond the range of float64; mend the number, or list it under missing", c.Name, quote(cell))
	}
	return 0, badLine(start, "%s: %s is not a number; list texts that mean no value under missing, or make the column categorical", c.Name, quote(cell))
}

func (c *csvColumn) multi(cell []byte, trim bool, names *Names, keys []uint64, fields []uint16, values []float32) ([]uint64, []uint16, []float32) {
	first := len(keys)
	for len(cell) > 0 {
		one, rest, _ := bytes.Cut(cell, c.sep)
		cell = rest
		if trim {
			one = bytes.Trim(one, " \t")
		}
		if len(one) > 0 {
			key := TextKey(c.field, one)
			if names.wants(c.field) {
				names.noteText(key, one)
			}
			keys, fields, values = append(keys, key), append(fields, uint16(c.field)), append(values, 1)
		}
	}
	switch n := len(keys) - first; {
	case n == 0:
		if names.wants(c.field) {
			names.noteText(c.missing, []byte(missingName))
		}
		return append(keys, c.missing), append(fields, uint16(c.field)), append(values, 1)
	case c.Weight != "one":
		for i := range values[first:] {
			values[first+i] = 1 / float32(n)
		}
	}
	return keys, fields, values
}

func (p *csvParser) label(c *csvColumn, cell []byte, start int) (float32, *lineError) {
	in := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return s == string(cell) })
	}
	switch {
	case p.labels.ignored():
		return 0, nil
	case len(cell) == 0:
		return 0, badLine(start, "%s: the label is missing; drop the row", c.Name)
	case c.PositiveAbove != nil:
		x, e := c.float(cell, start)
		if e == nil && x > *c.PositiveAbove {
			return 1, nil
		}
		return 0, e
	case c.Positive == nil:
		return p.labels.parse(cell, start)
	case in(c.Positive):
		return 1, nil
	case c.Negative != nil && !in(c.Negative):
		return 0, badLine(start, "%s: label %s is neither in positive %q nor in negative %q", c.Name, quote(cell), c.Positive, c.Negative)
	case c.Negative == nil && notFinite(cell): // also NaN of a Parquet column, where programs have it for "missing"
		return 0, badLine(start, "%s: the label is %s; drop the row, or name it in negative", c.Name, cell)
	}
	return 0, nil
}

// notFinite reports whether a cell is NaN or an infinity.
func notFinite(cell []byte) bool {
	x, err := strconv.ParseFloat(string(cell), 64)
	return err == nil && (math.IsNaN(x) || math.IsInf(x, 0))
}

func (s *Schema) fieldNames() []string {
	var names []string
	for _, c := range s.Columns {
		if c.Kind != "label" && c.Kind != "ignored" {
			names = append(names, c.Name)
		}
	}
	return names
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}
