package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
)

// parquetReadBytes is how much of a column is read at a time.
const parquetReadBytes = 256 << 10

// parquetMagic says whether a file begins as a Parquet file does.
func parquetMagic(path string) (bool, error) {
	f, err := openFile(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	magic := make([]byte, 4)
	n, err := io.ReadFull(f, magic)
	if err != nil && n == 0 && !errors.Is(err, io.EOF) {
		return false, fileError(path, err, "cannot be read: %v", plain(err))
	}
	return string(magic[:n]) == "PAR1" || string(magic[:n]) == "PARE", nil // the latter is encrypted
}

// parquetRows gives the rows of a Parquet file as csv of the schema's columns, in
// the schema's order: so ids, transforms and missing values come about as they do
// from csv. Row groups are read one after the other, and of each the columns that
// the schema uses, in ranges of parquetReadBytes.
type parquetRows struct {
	path  string
	file  *os.File
	size  int64
	from  *pqfile.Reader
	props *parquet.ReaderProperties // of from
	cells []*parquetColumn          // by the schema's columns; nil: the cell stays empty
	csv   csvText
	begun int   // row groups
	left  int64 // rows of the running one
	row   int
	text  []byte
	buf   []byte // of what is looked at before the library reads it
}

// openParquet reads the footer, and finds the schema's columns.
func openParquet(path string, o *Options) (p *parquetRows, err error) {
	if o.Schema == nil {
		return nil, fileError(path, nil, "the file is Parquet: which columns are read, and as what, is for --schema FILE.yaml to say")
	}
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	p = &parquetRows{path: path, file: f, csv: csvText{sep: []byte(o.Schema.separator())}, buf: make([]byte, parquetReadBytes)}
	defer func() {
		if x := recover(); x != nil { // the library's answer to some damage
			err = p.damaged(fmt.Errorf("%v", x))
		}
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, fileError(path, err, "cannot be read: %v", plain(err))
	}
	p.size = info.Size()
	if err := errors.Join(boundCodecs(), checkFooter(f, p.size)); err != nil {
		return nil, p.damaged(err)
	}
	p.props = parquet.NewReaderProperties(nil)
	p.props.BufferedStreamEnabled, p.props.BufferSize = true, parquetReadBytes
	p.from, err = pqfile.NewParquetReader(f, pqfile.WithReadProps(p.props))
	if err != nil {
		return nil, p.damaged(err)
	}
	for i := range o.Schema.Columns {
		c := &o.Schema.Columns[i]
		if c.Kind == "ignored" {
			p.cells = append(p.cells, nil)
			continue
		}
		column, err := findColumn(p.from.MetaData().Schema, c, o.IgnoreLabels && c.Kind == "label")
		if err != nil {
			return nil, fileError(path, err, "%v", err)
		}
		p.cells = append(p.cells, column)
	}
	return p, nil
}

func (p *parquetRows) damaged(err error) error {
	if no := (*refusedError)(nil); errors.As(err, &no) {
		return fileError(p.path, nil, "%s", no.msg)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fileError(p.path, err, "the Parquet file ends too early, behind row %d: it is truncated; copy or write it again", p.row)
	}
	return fileError(p.path, err, "the Parquet file is damaged behind row %d (%v); copy or write it again", p.row, err)
}

func (p *parquetRows) number() int   { return p.row }
func (p *parquetRows) columns() bool { return true }

func (p *parquetRows) next() (text []byte, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = p.damaged(fmt.Errorf("%v", x))
		}
	}()
	for p.left == 0 {
		if p.begun == p.from.NumRowGroups() {
			return nil, io.EOF
		}
		if err := p.begin(p.from.RowGroup(p.begun)); err != nil {
			return nil, p.damaged(err)
		}
		p.begun++
	}
	p.left--
	p.row++
	p.text = p.text[:0]
	for i, c := range p.cells {
		if i > 0 {
			p.text = append(p.text, p.csv.sep...)
		}
		if c == nil {
			continue
		}
		if err := c.row(&p.csv); err != nil {
			if bad := (*cellError)(nil); errors.As(err, &bad) {
				return nil, &Error{Path: p.path, Line: p.row, Msg: bad.Error()}
			}
			p.row--
			return nil, p.damaged(fmt.Errorf("column %s: %w", c.name, err))
		}
		p.text = p.csv.append(p.text)
	}
	return p.text, nil
}

// begin goes on to a row group.
func (p *parquetRows) begin(group *pqfile.RowGroupReader) error {
	p.left = group.NumRows()
	if p.left < 0 {
		return fmt.Errorf("a row group of %d rows", p.left)
	}
	for _, c := range p.cells {
		if c == nil || p.left == 0 { // of no rows, writers leave offsets that are of nothing
			continue
		}
		if err := p.beginColumn(group, c); err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return nil
}

func (p *parquetRows) beginColumn(group *pqfile.RowGroupReader, c *parquetColumn) error {
	if all := p.from.MetaData().RowGroups[p.begun].Columns; c.index < len(all) && all[c.index].IsSetCryptoMetadata() {
		return &refusedError{fmt.Sprintf("column %q of the Parquet file %s", c.name, encryptedFile)}
	}
	chunk, err := group.MetaData().ColumnChunk(c.index)
	if err != nil {
		return err
	}
	if _, err := compress.GetCodec(chunk.Compression()); err != nil {
		what := chunk.Compression().String()
		if chunk.Compression() == compress.Codecs.Lz4 {
			what = "lz4 in the framing of Hadoop"
		}
		return &refusedError{fmt.Sprintf("column %q of the Parquet file is packed by %s, which cannot be read; write it with zstd, snappy or lz4_raw", c.name, what)}
	}
	if err := p.checkPages(chunk); err != nil {
		return err
	}
	pages, err := group.Column(c.index)
	if err != nil {
		return err
	}
	return c.begin(pages)
}

func (p *parquetRows) Close() {
	for _, c := range p.cells {
		if c != nil {
			_ = c.end() // it has read, and holds memory alone
		}
	}
	p.file.Close()
}

// csvText makes cells that csvParser reads back as they were.
type csvText struct {
	sep  []byte
	cell []byte
}

// append puts the cell behind text, in quotes where it needs them.
func (t *csvText) append(text []byte) []byte {
	if !bytes.Contains(t.cell, t.sep) && bytes.IndexByte(t.cell, '"') < 0 {
		return append(text, t.cell...)
	}
	text = append(text, '"')
	for _, b := range t.cell {
		if b == '"' {
			text = append(text, '"')
		}
		text = append(text, b)
	}
	return append(text, '"')
}
