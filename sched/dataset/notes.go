package dataset

import (
	"fmt"
	"slices"
	"strings"
)

// found is what the heads of files show of how they are read.
type found struct {
	headerless count // csv files without a header, where the schema leaves it open
	order      []string
	reordered  count // csv files whose header has another order than the schema
	commented  count // files that begin with comment lines
	comments   int
}

// count is a number of files, with the first of them.
type count struct {
	files int
	first string
}

func (c *count) add(path string) {
	if c.files++; c.files == 1 {
		c.first = path
	}
}

// in is " in FILE", "" where all are meant.
func (c *count) in(files int) string {
	switch {
	case c.files == files:
		return ""
	case c.files == 1:
		return " in " + c.first
	}
	return fmt.Sprintf(" in %d files of %d (the first: %s)", c.files, files, c.first)
}

// note gathers what a file's head shows.
func (s *sniffer) note(h *head, in *input) {
	if h.comments > 0 {
		s.found.commented.add(h.path)
		s.found.comments += h.comments
	}
	if s.csv != nil && !h.columns {
		s.found.noteOrder(h.path, s.src.opts.Schema, s.csv, in)
	}
}

// noteOrder gathers whether a csv file has a header, and in which order.
func (f *found) noteOrder(path string, schema *Schema, csv *csvParser, in *input) {
	switch {
	case !schema.headerOpen():
	case !in.header:
		if f.headerless.add(path); f.headerless.files == 1 {
			f.order = csv.columnNames(in.layout)
		}
	case !slices.Equal(in.layout, csv.inOrder):
		f.reordered.add(path)
	}
}

// oneOrder refuses files without a header beside files whose header has another order than the
// schema: the former are parts of the latter, as split(1) cuts them, and the schema's order is not theirs.
func (f *found) oneOrder() error {
	if f.headerless.files == 0 || f.reordered.files == 0 {
		return nil
	}
	return fileError(f.headerless.first, nil, "the file has no header, and that of %s is not in the schema's order: which column is which here cannot be told; give each file its header, or have the schema's columns in the files' order", f.reordered.first)
}

// columnNames are the columns of a layout.
func (p *csvParser) columnNames(layout []int) (names []string) {
	for _, column := range layout {
		if column >= 0 {
			names = append(names, p.columns[column].Name)
		}
	}
	return names
}

// mostListed is how many columns a note names.
const mostListed = 6

// notes are sentences without a full stop.
func (f *found) notes(files int) (notes []string) {
	if f.headerless.files > 0 {
		notes = append(notes, headerless(f.headerless.in(files), f.order))
	}
	if f.comments > 0 {
		notes = append(notes, fmt.Sprintf("%d comment line(s) skipped%s", f.comments, f.commented.in(files)))
	}
	return notes
}

func headerless(where string, order []string) string {
	text := strings.Join(order[:min(len(order), mostListed)], ", ")
	if len(order) > mostListed {
		text += ", …"
	}
	return fmt.Sprintf("no header%s: columns are read in the schema's order (%s)", where, text)
}
