package inference

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"

	"psrt/tiers/export/outdir"
)

// ErrClosed is returned by calls on a closed table.
var ErrClosed = errors.New("inference: the table is closed")

// Table is an opened file.
type Table struct {
	Header
	path   string
	data   []byte // the whole file, mapped
	blocks uint64
	rows   int64
	good   []atomic.Uint32 // a bit for every block whose checksum was right
	cold   atomic.Int64    // blocks without that bit
}

// Open opens a file by its path.
func Open(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, outdir.Explain("opening", path, err)
	}
	defer f.Close()
	return Map(f, path)
}

// Map checks the file's ends and maps it; f may be closed afterwards. path is
// for errors. Damage between the ends is found when it is read.
func Map(f *os.File, path string) (*Table, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, outdir.Explain("looking at", path, err)
	}
	size := st.Size()
	if size < headerBytes+footerBytes {
		return nil, outdir.Corrupt(path, "it has %d bytes, at least %d are needed", size, headerBytes+footerBytes)
	}
	t, err := openEnds(path, f, size)
	if err != nil {
		return nil, err
	}
	if t.data, err = syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		return nil, outdir.Explain("mapping", path, err)
	}
	t.good = make([]atomic.Uint32, (t.blocks+31)/32)
	t.cold.Store(int64(t.blocks))
	t.expect(syscall.MADV_RANDOM) // readahead would bring blocks that no lookup asks for
	return t, nil
}

// openEnds reads header and footer through the file, not the mapping: a disk
// that fails here is an ordinary error.
func openEnds(path string, f *os.File, size int64) (*Table, error) {
	b := make([]byte, headerBytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, outdir.Explain("reading", path, err)
	}
	h, err := decodeHeader(b)
	if err != nil {
		return nil, outdir.Corrupt(path, "%v", err)
	}
	if _, err := f.ReadAt(b[:footerBytes], size-footerBytes); err != nil {
		return nil, outdir.Explain("reading", path, err)
	}
	blocks, rows, err := decodeFooter(b[:footerBytes])
	if err != nil {
		return nil, outdir.Corrupt(path, "%v", err)
	}
	body := uint64(size - headerBytes - footerBytes)
	if body%uint64(h.blockBytes) != 0 || blocks != body/uint64(h.blockBytes) || h.homes > blocks || rows > blocks*uint64(h.capacity) {
		return nil, outdir.Corrupt(path, "it has %d bytes, which are not its %d blocks of %d bytes with %d homes and %d rows", size, blocks, h.blockBytes, h.homes, rows)
	}
	return &Table{Header: h, path: path, blocks: blocks, rows: int64(rows)}, nil
}

// expect tells the kernel the order of what is read next. Where it does not
// listen only speed differs.
func (t *Table) expect(advice int) { _ = syscall.Madvise(t.data, advice) }

// Len is the number of rows.
func (t *Table) Len() int64 { return t.rows }

// Bytes is the file's size.
func (t *Table) Bytes() int64 { return int64(len(t.data)) }

// Close ends the mapping. Nothing may read any more. Closing again does nothing.
func (t *Table) Close() error {
	if t.data == nil {
		return nil
	}
	err := syscall.Munmap(t.data)
	t.data = nil
	if err != nil {
		return outdir.Explain("unmapping", t.path, err)
	}
	return nil
}
