package dataset

import (
	"bufio"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A page that says it unpacks to more than smallPage may say packedRatio times what it
// takes in the file: gzip's most is 1032, and what packs better is small.
const (
	smallPage   = 64 << 20
	packedRatio = 1100
)

// refusedError is of a file that is whole, and not read.
type refusedError struct{ msg string }

func (e *refusedError) Error() string { return e.msg }

// misread is for what the library reads wrongly without a word: of lz4 pages that pack badly
// the memory before they are unpacked, and of runs of equal booleans one of eight.
func misread(meta *format.ColumnMetaData, h *format.PageHeader) error {
	encoding := format.Plain
	switch h.Type {
	case format.DataPage:
		encoding = h.DataPageHeader.V.Encoding
	case format.DataPageV2:
		encoding = h.DataPageHeaderV2.V.Encoding
	}
	switch {
	case meta.Codec == format.Lz4Raw || meta.Codec == format.Lz4:
		return &refusedError{"is packed by lz4, which cannot be read; write it with zstd or snappy"}
	case meta.Type == format.Boolean && encoding == format.RLE:
		return &refusedError{"has booleans as runs (RLE, of data pages of version 2), which cannot be read; write data pages of version 1, or the column as int8"}
	}
	return nil
}

// checkPages refuses pages of a column that would be read wrongly, and holds the sizes that
// they say they have, in the row group that begins, against the file: the library takes
// memory for what a page says before it reads the page.
func (p *parquetRows) checkPages(c *parquetColumn) error {
	meta := &p.from.Metadata().RowGroups[p.begun].Columns[c.index].MetaData
	at := meta.DataPageOffset
	if d := meta.DictionaryPageOffset; d != 0 {
		at = d
	}
	end := at + meta.TotalCompressedSize
	if at < 0 || meta.TotalCompressedSize < 0 || end < at || end > p.from.Size() {
		return fmt.Errorf("its pages are at %d to %d of a file of %d bytes", at, end, p.from.Size())
	}
	var protocol thrift.CompactProtocol
	buf := bufio.NewReader(nil)
	for at < end {
		section := io.NewSectionReader(p.file, at, end-at)
		buf.Reset(section)
		var h format.PageHeader
		if err := thrift.NewDecoder(protocol.NewReader(buf)).Decode(&h); err != nil {
			return fmt.Errorf("the page at %d: %w", at, err)
		}
		if err := misread(meta, &h); err != nil {
			return err
		}
		read, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		body := at + read - int64(buf.Buffered())
		packed, size := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
		if packed < 0 || packed > end-body || size < 0 || size > smallPage && size/packedRatio > packed {
			return fmt.Errorf("the page at %d says that it has %d bytes, %d unpacked, where %d are left", at, packed, size, end-body)
		}
		at = body + packed
	}
	return nil
}
