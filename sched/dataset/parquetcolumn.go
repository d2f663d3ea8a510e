package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"psrt/sched/yamlkeys"
)

// parquetValues is how many values of a column are decoded at a time.
const parquetValues = 256

// parquetColumn goes through one column of a file.
type parquetColumn struct {
	name      string
	index     int // of the leaf
	list      bool
	most      int16  // the level at which there is a value
	sep       []byte // between the values of a list
	pages     pqfile.ColumnChunkReader
	values    parquetBatch
	defs      []int16 // by places, of which those without a value are null
	reps      []int16 // 0 where a row begins
	places    int     // decoded
	at, value int     // the next place, and the next value
}

// cellError is a value that cannot be read, in a file that is whole.
type cellError struct{ msg string }

func (e *cellError) Error() string { return e.msg }

// findColumn finds a column of the schema by its name, which may be a path with dots:
// the leaf of that name, or the only leaf below it. absent lets it be none.
func findColumn(from *schema.Schema, c *Column, absent bool) (*parquetColumn, error) {
	at := schema.Node(from.Root())
	for rest := c.Name; rest != ""; {
		next := child(at, rest)
		if next != nil {
			rest = ""
		} else {
			var name string
			name, rest, _ = strings.Cut(rest, ".")
			next = child(at, name)
		}
		if next == nil {
			if absent {
				return nil, nil
			}
			var names []string
			for _, x := range children(at) {
				names = append(names, x.Name())
			}
			return nil, fmt.Errorf("the Parquet file has no column %q%s; it has %s", c.Name, yamlkeys.Meant(c.Name, names), strings.Join(names, ", "))
		}
		at = next
	}
	for at.Type() == schema.Group {
		below := children(at)
		if len(below) != 1 {
			return nil, fmt.Errorf("column %q of the Parquet file is a group of several; name one of them: %s.%s", c.Name, c.Name, below[0].Name())
		}
		at = below[0]
	}
	index := from.ColumnIndexByNode(at)
	leaf := from.Column(index)
	if leaf.MaxRepetitionLevel() > 1 {
		return nil, fmt.Errorf("column %q of the Parquet file holds lists of lists; only one level can be read", c.Name)
	}
	list := leaf.MaxRepetitionLevel() == 1
	if list && c.Kind != "multi" {
		return nil, fmt.Errorf("column %q of the Parquet file holds lists; give it kind: multi, not %s", c.Name, c.Kind)
	}
	values, err := cellFormat(leaf)
	if err != nil {
		return nil, fmt.Errorf("column %q of the Parquet file: %w", c.Name, err)
	}
	sep := c.Separator
	if sep == "" {
		sep = "|"
	}
	return &parquetColumn{
		name: c.Name, index: index, list: list, most: leaf.MaxDefinitionLevel(), sep: []byte(sep), values: values,
		defs: make([]int16, parquetValues), reps: make([]int16, parquetValues),
	}, nil
}

func children(n schema.Node) (all []schema.Node) {
	if g, ok := n.(*schema.GroupNode); ok {
		for i := range g.NumFields() {
			all = append(all, g.Field(i))
		}
	}
	return all
}

func child(n schema.Node, name string) schema.Node {
	if g, ok := n.(*schema.GroupNode); ok {
		if i := g.FieldIndexByName(name); i >= 0 {
			return g.Field(i)
		}
	}
	return nil
}

// cellFormat says how values of a leaf are read and written.
func cellFormat(leaf *schema.Column) (parquetBatch, error) {
	unsigned := false
	switch l := leaf.LogicalType().(type) {
	case schema.DecimalLogicalType:
		return nil, errors.New("decimals cannot be read; write it as double or as text")
	case schema.Float16LogicalType:
		return nil, errors.New("half floats cannot be read; write it as float")
	case schema.IntLogicalType:
		unsigned = !l.IsSigned()
	}
	switch leaf.PhysicalType() {
	case parquet.Types.Boolean:
		return batchOf(func(b []byte, v bool) []byte {
			if v {
				return append(b, '1')
			}
			return append(b, '0')
		}), nil
	case parquet.Types.Int32:
		if unsigned {
			return batchOf(func(b []byte, v int32) []byte { return strconv.AppendUint(b, uint64(uint32(v)), 10) }), nil
		}
		return batchOf(func(b []byte, v int32) []byte { return strconv.AppendInt(b, int64(v), 10) }), nil
	case parquet.Types.Int64:
		if unsigned {
			return batchOf(func(b []byte, v int64) []byte { return strconv.AppendUint(b, uint64(v), 10) }), nil
		}
		return batchOf(func(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }), nil
	case parquet.Types.Float:
		return batchOf(func(b []byte, v float32) []byte { return strconv.AppendFloat(b, float64(v), 'g', -1, 32) }), nil
	case parquet.Types.Double:
		return batchOf(func(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'g', -1, 64) }), nil
	case parquet.Types.ByteArray:
		return batchOf(func(b []byte, v parquet.ByteArray) []byte { return append(b, v...) }), nil
	case parquet.Types.FixedLenByteArray:
		return batchOf(func(b []byte, v parquet.FixedLenByteArray) []byte { return append(b, v...) }), nil
	}
	return nil, fmt.Errorf("its type %v cannot be read; write it as a number or as text", leaf.PhysicalType())
}

// parquetBatch holds the values that are decoded at a time.
type parquetBatch interface {
	// begin takes the reader of the column in another row group.
	begin(pages pqfile.ColumnChunkReader) error
	// read decodes the next values, of one page: it says of how many places, and how many
	// of these have one.
	read(defs, reps []int16) (places int64, values int, err error)
	// write appends value i.
	write(b []byte, i int) []byte
}

type batch[T any] struct {
	pages interface {
		ReadBatchInPage(most int64, values []T, defs, reps []int16) (int64, int, error)
	}
	values []T // of bytes, they lie in the page
	format func(b []byte, v T) []byte
}

func batchOf[T any](format func(b []byte, v T) []byte) parquetBatch {
	return &batch[T]{values: make([]T, parquetValues), format: format}
}

func (b *batch[T]) begin(pages pqfile.ColumnChunkReader) (err error) {
	ok := false
	if b.pages, ok = pages.(interface {
		ReadBatchInPage(most int64, values []T, defs, reps []int16) (int64, int, error)
	}); !ok {
		return fmt.Errorf("it has values of type %v", pages.Type())
	}
	return nil
}

func (b *batch[T]) read(defs, reps []int16) (int64, int, error) {
	return b.pages.ReadBatchInPage(parquetValues, b.values, defs, reps)
}

func (b *batch[T]) write(to []byte, i int) []byte { return b.format(to, b.values[i]) }

func (c *parquetColumn) begin(pages pqfile.ColumnChunkReader) error {
	if err := c.end(); err != nil {
		return err
	}
	c.pages = pages
	return c.values.begin(pages)
}

func (c *parquetColumn) end() (err error) {
	if c.pages != nil {
		err = c.pages.Close()
	}
	c.pages, c.places, c.at = nil, 0, 0
	return err
}

// fill decodes the next values; io.EOF is the end of the row group.
func (c *parquetColumn) fill() error {
	if c.at < c.places {
		return nil
	}
	if !c.pages.HasNext() {
		if err := c.pages.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	places, values, err := c.values.read(c.defs, c.reps)
	if err != nil {
		return err
	}
	want := int(places)
	if c.most > 0 {
		want = 0
		for _, d := range c.defs[:places] {
			if d == c.most {
				want++
			}
		}
	}
	if places == 0 || values != want { // so the library tells of indices beyond a dictionary
		return fmt.Errorf("a page has %d values in %d places, where %d are to be", values, places, want)
	}
	c.places, c.at, c.value = int(places), 0, 0
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
		if !first && c.reps[c.at] == 0 {
			return nil
		}
		there := c.most == 0 || c.defs[c.at] == c.most
		c.at++
		if there {
			c.value++
			if err := c.write(to, c.value-1); err != nil {
				return err
			}
		}
		if !c.list {
			return nil
		}
	}
}

func (c *parquetColumn) write(to *csvText, i int) error {
	if !c.list {
		to.cell = c.values.write(to.cell, i)
		return nil
	}
	if len(to.cell) > 0 {
		to.cell = append(to.cell, c.sep...)
	}
	from := len(to.cell)
	to.cell = c.values.write(to.cell, i)
	if one := to.cell[from:]; bytes.Contains(one, c.sep) {
		return &cellError{fmt.Sprintf("%s: the value %s holds the separator %q of its column; give the column another separator in the schema", c.name, quote(one), c.sep)}
	}
	return nil
}
