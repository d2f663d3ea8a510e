package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// A page that says it unpacks to more than smallPage may say packedRatio times what it
// takes in the file: gzip's most is 1032, and what packs better is small.
const (
	smallPage   = 64 << 20
	packedRatio = 1100
)

// pageHeaderSize is how much of a page is read for its header, at first; one takes at most
// maxPageHeader, as in the library.
const (
	pageHeaderSize = 4 << 10
	maxPageHeader  = 4 << 20
)

// mostGroups is how many groups a schema may have: the library takes its stack for each
// that is within another.
const mostGroups = 100_000

// refusedError is of a file that is whole, and not read.
type refusedError struct{ msg string }

func (e *refusedError) Error() string { return e.msg }

// checkFooter holds the lengths in a footer against its own: the library takes memory for
// what they say. A file that is encrypted is refused.
func checkFooter(f io.ReaderAt, size int64) error {
	var end [8]byte
	if size < 12 {
		return fmt.Errorf("it has %d bytes: %w", size, io.ErrUnexpectedEOF)
	}
	if _, err := f.ReadAt(end[:], size-8); err != nil {
		return err
	}
	if string(end[4:]) == "PARE" {
		return &refusedError{"the Parquet file " + encryptedFile}
	}
	if string(end[4:]) != "PAR1" {
		return errors.New("it does not end as such a file does")
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if n > size-12 {
		return fmt.Errorf("its footer says that it has %d bytes, of a file of %d", n, size)
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-8-n); err != nil {
		return err
	}
	groups, children, negative := 0, int64(0), false
	t := thriftText{text: footer, number: func(path []int16, v int32) {
		if slices.Equal(path, []int16{2, 5}) && v != 0 { // num_children of the schema's elements
			groups, children, negative = groups+1, children+int64(v), negative || v < 0
		}
	}}
	if err := t.fields(); err != nil {
		return fmt.Errorf("its footer: %w", err)
	}
	// Each element takes a byte at least, and is the child of one.
	if negative || groups > mostGroups || children > n {
		return fmt.Errorf("its schema has %d groups of %d elements together, in a footer of %d bytes", groups, children, n)
	}
	return nil
}

const encryptedFile = "is encrypted, which cannot be read; write it without encryption"

// pageHeader is what is looked at of one.
type pageHeader struct {
	kind, packed, size, values int32
	sum                        uint32
	summed                     bool
}

// The kinds of pages, in the file's numbers.
const dictionaryPage = 2

// readPageHeader gives a page's header and its length in the file.
func readPageHeader(f io.ReaderAt, at, end int64, buf []byte) (h pageHeader, n int64, err error) {
	for size := int64(pageHeaderSize); ; size *= 4 {
		buf = slices.Grow(buf[:0], int(min(size, end-at)))[:min(size, end-at)]
		if _, err := f.ReadAt(buf, at); err != nil {
			return h, 0, err
		}
		h = pageHeader{}
		t := thriftText{text: buf, number: h.set}
		err := t.fields()
		if err == nil {
			return h, int64(t.at), nil
		}
		if !errors.Is(err, errThriftShort) || size >= end-at || size >= maxPageHeader {
			return h, 0, err
		}
	}
}

func (h *pageHeader) set(path []int16, v int32) {
	switch {
	case len(path) == 2 && path[1] == 1 && (path[0] == 5 || path[0] == 7 || path[0] == 8):
		h.values = v // num_values of a data page, a dictionary, a data page of version 2
	case len(path) != 1:
	case path[0] == 1:
		h.kind = v
	case path[0] == 2:
		h.size = v
	case path[0] == 3:
		h.packed = v
	case path[0] == 4:
		h.sum, h.summed = uint32(v), true
	}
}

// checkPages holds what the pages of a column say that they have, in the row group that
// begins, against the file: the library takes memory for what a page says before it reads
// the page. It holds their checksums, too, which the library leaves aside.
func (p *parquetRows) checkPages(chunk *metadata.ColumnChunkMetaData) error {
	at := chunk.DataPageOffset()
	if d := chunk.DictionaryPageOffset(); d > 0 {
		at = min(at, d)
	}
	end := at + chunk.TotalCompressedSize()
	if at < 0 || chunk.TotalCompressedSize() < 0 || end < at || end > p.size {
		return fmt.Errorf("its pages are at %d to %d of a file of %d bytes", at, end, p.size)
	}
	// None of 0 bytes: that would have the library take its own limits.
	p.props.MaxCompressedPageSize, p.props.MaxUncompressedPageSize = 1, 1
	for at < end {
		h, n, err := readPageHeader(p.file, at, end, p.buf)
		if err != nil {
			return fmt.Errorf("the page at %d: %w", at, err)
		}
		body := at + n
		packed, size, values := int64(h.packed), int64(h.size), int64(h.values)
		if packed < 0 || packed > end-body || size < 0 || size > smallPage && size/packedRatio > packed {
			return fmt.Errorf("the page at %d says that it has %d bytes, %d unpacked, where %d are left", at, packed, size, end-body)
		}
		if values < 0 || h.kind == dictionaryPage && values > size || h.kind != dictionaryPage && values > chunk.NumValues() {
			return fmt.Errorf("the page at %d says that it has %d values, in %d bytes, of a column of %d", at, values, size, chunk.NumValues())
		}
		if h.summed {
			sum, err := p.sum(body, packed)
			if err != nil {
				return err
			}
			if sum != h.sum {
				return fmt.Errorf("the page at %d has the checksum %08x, not %08x", at, sum, h.sum)
			}
		}
		p.props.MaxCompressedPageSize = max(p.props.MaxCompressedPageSize, packed)
		p.props.MaxUncompressedPageSize = max(p.props.MaxUncompressedPageSize, size)
		at = body + packed
	}
	return nil
}

func (p *parquetRows) sum(at, n int64) (sum uint32, err error) {
	for n > 0 {
		buf := p.buf[:min(n, int64(len(p.buf)))]
		if _, err := p.file.ReadAt(buf, at); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, crc32.IEEETable, buf)
		at, n = at+int64(len(buf)), n-int64(len(buf))
	}
	return sum, nil
}
