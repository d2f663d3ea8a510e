package dataset

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"psrt/csrc/decimal"
	"psrt/sched/yamlkeys"
)

// layout maps the cells of a file to columns. first are the file's first lines; isHeader reports
// whether the first of them names the columns. A line that is a header in part is an error: read as
// a row it would put the columns at wrong places.
func (p *csvParser) layout(s *Schema, first [][]byte) (layout []int, isHeader bool, e *lineError) {
	mode, _ := s.header()
	names, e := p.cells(first[0])
	if e != nil && mode != "no" {
		return nil, false, e
	}
	layout, missing := p.byName(s, names)
	switch {
	case mode == "no" && len(missing) == 0 && e == nil && isNames(names):
		return nil, false, badLine(0, `the first line holds the schema's column names, but the schema says header: "false"; remove the line, or set header: "auto"`)
	case mode == "no":
		return p.byPosition(s, first[0]), false, nil
	case len(missing) == 0:
		return layout, true, headerFits(s, names, layout)
	case mode == "yes":
		return nil, false, badLine(0, "the header has no column %s; it has %s. Give the columns the same names in the file and in the schema", missed(missing, names, layout), quote(first[0]))
	}
	if sign := p.headerSign(s, names, first); sign != "" {
		return nil, false, badLine(0, `the first line looks like a header (%s), but has no column %s; it has %s. Give the columns the same names in the file and in the schema, or set header: "false" in the schema if the line is a row`,
			sign, missed(missing, names, layout), quote(first[0]))
	}
	return p.byPosition(s, first[0]), false, nil
}

// cells returns the line's cells.
func (p *csvParser) cells(line []byte) (cells []string, e *lineError) {
	for i := 0; i <= len(line); {
		cell, _, next, e := p.cut(line, i)
		if e != nil {
			return nil, e
		}
		cells, i = append(cells, string(cell)), next
	}
	return cells, nil
}

// byName is the layout of a file whose first line has these names. missing are the schema's columns
// that it lacks, but for a label that nobody reads.
func (p *csvParser) byName(s *Schema, names []string) (layout []int, missing []string) {
	layout = slices.Repeat([]int{-1}, len(names))
	for k, c := range s.Columns {
		if j := slices.Index(names, c.Name); j >= 0 {
			layout[j] = k
		} else if !p.labels.ignored() || c.Kind != "label" {
			missing = append(missing, c.Name)
		}
	}
	return layout, missing
}

// byPosition is the layout of a file without a header, which may lack a label that nobody reads.
func (p *csvParser) byPosition(s *Schema, first []byte) []int {
	if !p.labels.ignored() || p.count(first) != len(p.inOrder)-1 {
		return p.inOrder
	}
	return slices.DeleteFunc(slices.Clone(p.inOrder), func(k int) bool { return s.Columns[k].Kind == "label" })
}

// headerFits refuses a header that has columns twice, or others than the schema.
func headerFits(s *Schema, names []string, layout []int) *lineError {
	for j, name := range names {
		if k := layout[j]; k >= 0 && slices.Contains(names[j+1:], name) {
			return badLine(0, "the header has column %q twice; rename one of them", name)
		}
		if layout[j] >= 0 || s.Rest == "ignored" || slices.Contains(names[:j], name) {
			continue
		}
		var free []string
		for k, c := range s.Columns {
			if !slices.Contains(layout, k) {
				free = append(free, c.Name)
			}
		}
		return badLine(0, "header column %s is not in the schema%s; add it (kind: ignored), or set rest: ignored", quote([]byte(name)), yamlkeys.Meant(name, free))
	}
	return nil
}

const (
	mostMissed = 3   // missing columns that an error names
	mostName   = 256 // bytes of a header's name that may have been meant
)

// repeatsHeader reports whether every cell of a row is its column's name.
func (p *csvParser) repeatsHeader(line []byte, layout []int) bool {
	columns, same := 0, 0
	e := p.each(line, layout, func(column int, cell []byte, start int) *lineError {
		if columns++; string(cell) == p.columns[column].Name {
			same++
		}
		return nil
	})
	return e == nil && same > 1 && same == columns
}

// missed lists columns that a header lacks, each with the name that was probably meant.
func missed(missing, names []string, layout []int) string {
	var free []string // names of no column
	for j, name := range names {
		if layout[j] < 0 && len(name) <= mostName {
			free = append(free, name)
		}
	}
	var list []string
	for _, m := range missing[:min(len(missing), mostMissed)] {
		near := yamlkeys.Nearest(m, free)
		if i := slices.IndexFunc(free, func(name string) bool { return plainName(name) == plainName(m) }); i >= 0 {
			near = free[i]
		}
		if near != "" {
			m = fmt.Sprintf("%q (did you mean %s?)", m, near)
		} else {
			m = fmt.Sprintf("%q", m)
		}
		list = append(list, m)
	}
	text := strings.Join(list, ", ")
	if n := len(missing) - len(list); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// plainName is a name without what people write differently: case, blanks and separators.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune(`_-.#"'`, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// isNames reports whether cells are names of columns rather than values that happen to be equal.
func isNames(cells []string) bool {
	return len(cells) > 1 && slices.ContainsFunc(cells, isName)
}

// noValue are texts that stand for a value in data, where a header would not have them.
var noValue = []string{"na", "n/a", "nan", "null", "none", "nil", "inf", "infinity", "missing", "unknown", "undefined", "other", "default", "true", "false", "yes", "no"}

// isName reports whether a cell could name a column: it begins with a letter, and is neither
// hexadecimal nor a usual word for no value.
func isName(cell string) bool {
	text := strings.TrimLeft(cell, "_#")
	first := strings.IndexFunc(text, unicode.IsLetter) == 0
	hex := len(text) > 2 && strings.ContainsAny(text, "0123456789") && strings.Trim(text, "0123456789abcdefABCDEF-") == ""
	return first && !hex && !slices.Contains(noValue, strings.ToLower(text))
}

// sureRows is how many numbers stand below a text before that tells a header where a column may
// hold any text.
const sureRows = 3

// headerSign says by what a first line looks like a header although it lacks columns; "" where it
// looks like a row. It looks at the rows that are known of every file, so that all readers agree.
func (p *csvParser) headerSign(s *Schema, names []string, first [][]byte) string {
	below := p.below(first)
	wanted, numbers := 0, 0
	byPlain := make(map[string]string)
	for _, c := range s.Columns {
		if wanted++; !decimal.Is(c.Name) {
			byPlain[plainName(c.Name)] = c.Name
		}
	}
	fits, sign := 0, ""
	for i, name := range names {
		if decimal.Is(name) {
			numbers++
		}
		column, known := byPlain[plainName(name)]
		if !known || !isName(name) || slices.ContainsFunc(below, func(row []string) bool { return i < len(row) && row[i] == name }) {
			continue // not a name, or a value that comes again
		}
		if fits++; sign == "" && column == name {
			sign = fmt.Sprintf("it has the column name %q", name)
		} else if sign == "" {
			sign = fmt.Sprintf("it has %q, as column %q of the schema but for its spelling", name, column)
		}
	}
	if fits > 0 && (numbers == 0 || 2*fits > wanted) { // headers hold no numbers
		return sign
	}
	if numbers > 0 {
		return ""
	}
	return p.textOverNumbers(s, names, below, p.byPosition(s, first[0]))
}

// below is the cells of the rows behind the first line, as many as readHead reads of every file.
func (p *csvParser) below(first [][]byte) (rows [][]string) {
	total := len(first[0])
	for _, line := range first[1:] {
		if total >= sniffHeadBytes || len(rows) == sniffHeadRows {
			break
		}
		total += len(line)
		cells, e := p.cells(line)
		if e != nil {
			break // the parser says what is wrong with it
		}
		rows = append(rows, cells)
	}
	return rows
}

// textOverNumbers finds a text in the first line below which there are numbers alone.
func (p *csvParser) textOverNumbers(s *Schema, names []string, below [][]string, layout []int) string {
	over, text := 0, ""
	for i, name := range names {
		if i >= len(layout) || !isName(name) || p.absent([]byte(name)) {
			continue
		}
		c := &p.columns[layout[i]]
		rows := 0
		for _, row := range below {
			if i >= len(row) || p.absent([]byte(row[i])) {
				continue
			}
			if rows++; !c.numbers(row[i]) {
				rows = 0
				break
			}
		}
		if rows == 0 {
			continue
		}
		if text == "" {
			text = quote([]byte(name))
		}
		if over++; over > 1 || rows >= sureRows || c.Kind == "numeric" || c.Kind == "label" {
			return fmt.Sprintf("numbers stand below its %s", text)
		}
	}
	return ""
}

// numbers reports whether a cell holds numbers alone.
func (c *csvColumn) numbers(cell string) bool {
	if c.Kind != "multi" {
		return decimal.Is(cell)
	}
	for _, one := range bytes.Split([]byte(cell), c.sep) {
		if one = bytes.Trim(one, " \t"); len(one) > 0 && !decimal.Is(one) {
			return false
		}
	}
	return true
}
