package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"psrt/sched/yamlkeys"
)

// parquetValues is how many values of a column are decoded at a time.
const parquetValues = 256

// parquetColumn goes through one column of a file.
type parquetColumn struct {
	name   string
	index  int // of the leaf
	list   bool
	sep    []byte // between the values of a list
	write  func(b []byte, v parquet.Value) []byte
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader // of page
	buf    []parquet.Value
	ready  []parquet.Value // in buf, not given yet
}

// cellError is a value that cannot be read, in a file that is whole.
type cellError struct{ msg string }

func (e *cellError) Error() string { return e.msg }

// findColumn finds a column of the schema by its name, which may be a path with dots:
// the leaf of that name, or the only leaf below it. absent lets it be none.
func findColumn(root *parquet.Column, c *Column, absent bool) (*parquetColumn, error) {
	at := root
	for rest := c.Name; rest != ""; {
		next := (*parquet.Column)(nil)
		if next = at.Column(rest); next != nil {
			rest = ""
		} else {
			var name string
			name, rest, _ = strings.Cut(rest, ".")
			next = at.Column(name)
		}
		if next == nil {
			if absent {
				return nil, nil
			}
			var names []string
			for _, x := range at.Columns() {
				names = append(names, x.Name())
			}
			return nil, fmt.Errorf("the Parquet file has no column %q%s; it has %s", c.Name, yamlkeys.Meant(c.Name, names), strings.Join(names, ", "))
		}
		at = next
	}
	for !at.Leaf() {
		if len(at.Columns()) != 1 {
			return nil, fmt.Errorf("column %q of the Parquet file is a group of several; name one of them: %s.%s", c.Name, c.Name, at.Columns()[0].Name())
		}
		at = at.Columns()[0]
	}
	if at.MaxRepetitionLevel() > 1 {
		return nil, fmt.Errorf("column %q of the Parquet file holds lists of lists; only one level can be read", c.Name)
	}
	list := at.MaxRepetitionLevel() == 1
	if list && c.Kind != "multi" {
		return nil, fmt.Errorf("column %q of the Parquet file holds lists; give it kind: multi, not %s", c.Name, c.Kind)
	}
	write, err := cellFormat(at)
	if err != nil {
		return nil, fmt.Errorf("column %q of the Parquet file: %w", c.Name, err)
	}
	sep := c.Separator
	if sep == "" {
		sep = "|"
	}
	return &parquetColumn{name: c.Name, index: at.Index(), list: list, sep: []byte(sep), write: write, buf: make([]parquet.Value, parquetValues)}, nil
}

// cellFormat says how values of a leaf are written.
func cellFormat(leaf *parquet.Column) (func([]byte, parquet.Value) []byte, error) {
	t := leaf.Type()
	unsigned := false
	if l := t.LogicalType(); l != nil {
		switch l := l.Value.(type) {
		case *format.DecimalType:
			return nil, errors.New("decimals cannot be read; write it as double or as text")
		case *format.Float16Type:
			return nil, errors.New("half floats cannot be read; write it as float")
		case *format.IntType:
			unsigned = !l.IsSigned
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		return func(b []byte, v parquet.Value) []byte {
			if v.Boolean() {
				return append(b, '1')
			}
			return append(b, '0')
		}, nil
	case parquet.Int32:
		if unsigned {
			return func(b []byte, v parquet.Value) []byte { return strconv.AppendUint(b, uint64(v.Uint32()), 10) }, nil
		}
		return func(b []byte, v parquet.Value) []byte { return strconv.AppendInt(b, int64(v.Int32()), 10) }, nil
	case parquet.Int64:
		if unsigned {
			return func(b []byte, v parquet.Value) []byte { return strconv.AppendUint(b, v.Uint64(), 10) }, nil
		}
		return func(b []byte, v parquet.Value) []byte { return strconv.AppendInt(b, v.Int64(), 10) }, nil
	case parquet.Float:
		return func(b []byte, v parquet.Value) []byte { return strconv.AppendFloat(b, float64(v.Float()), 'g', -1, 32) }, nil
	case parquet.Double:
		return func(b []byte, v parquet.Value) []byte { return strconv.AppendFloat(b, v.Double(), 'g', -1, 64) }, nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return func(b []byte, v parquet.Value) []byte { return append(b, v.ByteArray()...) }, nil
	}
	return nil, fmt.Errorf("its type %v cannot be read; write it as a number or as text", t)
}

func (c *parquetColumn) begin(chunk parquet.ColumnChunk) {
	c.end()
	c.pages = chunk.Pages()
}

func (c *parquetColumn) end() {
	c.drop()
	if c.pages != nil {
		c.pages.Close()
		c.pages = nil
	}
}

func (c *parquetColumn) drop() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	c.page, c.values, c.ready = nil, nil, nil
}

// fill decodes the next values; io.EOF is the end of the row group.
func (c *parquetColumn) fill() error {
	for len(c.ready) == 0 {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buf)
		c.ready = c.buf[:n]
		if err != nil && err != io.EOF {
			return err
		}
		if n == 0 {
			c.drop()
		}
	}
	return nil
}

// row writes the next row's cell.
func (c *parquetColumn) row(to *csvText) error {
	to.cell = to.cell[:0]
	for first := true; ; first = false {
		err := c.fill()
		if err == io.EOF && !first && c.list {
			return nil // the row group's last row
		}
		if err == io.EOF {
			return fmt.Errorf("%w: it has fewer values than the row group has rows", io.ErrUnexpectedEOF)
		}
		if err != nil {
			return err
		}
		v := c.ready[0]
		if !first && v.RepetitionLevel() == 0 {
			return nil
		}
		c.ready = c.ready[1:]
		if !v.IsNull() {
			if err := c.value(to, v); err != nil {
				return err
			}
		}
		if !c.list {
			return nil
		}
	}
}

func (c *parquetColumn) value(to *csvText, v parquet.Value) error {
	if !c.list {
		to.cell = c.write(to.cell, v)
		return nil
	}
	if len(to.cell) > 0 {
		to.cell = append(to.cell, c.sep...)
	}
	from := len(to.cell)
	to.cell = c.write(to.cell, v)
	if one := to.cell[from:]; bytes.Contains(one, c.sep) {
		return &cellError{fmt.Sprintf("%s: the value %s holds the separator %q of its column; give the column another separator in the schema", c.name, quote(one), c.sep)}
	}
	return nil
}
