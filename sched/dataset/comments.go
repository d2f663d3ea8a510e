package dataset

import (
	"bytes"
	"slices"
	"strings"

	"psrt/csrc/decimal"
)

// isComment reports whether a line begins with a #.
func isComment(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && line[0] == '#'
}

// refuseComment says why a line that begins with # cannot be skipped as a comment: in csv it may be
// a header, or a row whose first cell begins with a #. Nothing that may be either is lost.
func refuseComment(line []byte, o *Options) *lineError {
	if o.Schema == nil {
		return nil
	}
	p := newCSVParser(o.Schema, o.rule())
	cells, e := p.cells(line)
	if e != nil {
		return nil // no row, whatever else
	}
	for i, cell := range cells {
		if i == 0 {
			cell = strings.TrimLeft(cell, "# \t")
		}
		if len(cells) > 1 && slices.ContainsFunc(o.Schema.Columns, func(c Column) bool { return isName(c.Name) && plainName(c.Name) == plainName(cell) }) {
			return badLine(0, "the first line looks like a header behind a #, with the column %s; take the # away, or remove the line if it is a comment", quote([]byte(cell)))
		}
	}
	if n := len(o.Schema.Columns); len(cells) == n || o.IgnoreLabels && len(cells) == n-1 {
		return badLine(0, "the line begins with # and has %d cells, as a row has; if it is a comment, remove it, and if it is a row, put its first cell in quotes", len(cells))
	}
	return nil
}

// explain says what a line is that could not be parsed, where that can be seen: a comment line
// among rows, or a header, which the first line of a file may be.
func explain(p lineParser, line []byte, e *lineError, first bool) *lineError {
	if isComment(line) {
		return &lineError{e.column, e.msg + "; the line begins with #, and comment lines may stand before the first row alone: remove it"}
	}
	format := ""
	switch p := p.(type) {
	case *criteoParser:
		format = "criteo"
	case *sparseParser:
		format = p.grammar()
	}
	if first && format != "" && looksLikeHeader(line) {
		return badLine(0, "the first line looks like a header (%s), and files of %s lines have none; remove it", quote(line), format)
	}
	return e
}

// looksLikeHeader reports whether a line of a format without headers is one: it begins with a name,
// most of it are names, and nothing in it is a number or a feature.
func looksLikeHeader(line []byte) bool {
	cells := bytes.Fields(line)
	names := 0
	for i, cell := range cells {
		id, _, _ := bytes.Cut(cell, []byte(":"))
		name := isName(string(cell))
		if decimal.Is(id) || i == 0 && !name {
			return false
		}
		if name {
			names++
		}
	}
	return 2*names > len(cells)
}
