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

// checkPages holds the sizes that the pages of a column say they have, in the row group
// that begins, against the file: the library takes memory for what a page says before
// it reads the page.
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
