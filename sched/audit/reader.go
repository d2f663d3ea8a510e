package audit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// Reader reads a file that may still be written.
type Reader struct {
	Header Header
	path   string
	f      *os.File
	in     *bufio.Reader
	at     int64 // of the next record
	body   []byte
	torn   error
}

// Open reads a file's head.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	r, err := newReader(f, path)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.f = f
	return r, nil
}

func newReader(in io.Reader, path string) (*Reader, error) {
	r := &Reader{path: path, in: bufio.NewReaderSize(in, windowBytes), at: magicBytes}
	var b [magicBytes]byte
	if _, err := io.ReadFull(r.in, b[:]); err != nil || string(b[:len(magic)]) != magic {
		return nil, errors.New("audit: not a record of psrt train --audit")
	}
	var head Record
	if _, err := r.Next(&head); err != nil {
		if err == io.EOF {
			err = errors.New("audit: the file has no head")
		}
		return nil, err
	}
	h, err := parseHead(&head)
	r.Header = h
	return r, err
}

// Path is the file's.
func (r *Reader) Path() string { return r.path }

// Next reads the next record, and says where it lies. io.EOF is the end of what
// was written; Torn says whether that was in the middle of something.
func (r *Reader) Next(rec *Record) (at int64, err error) {
	var head [recordHead]byte
	at = r.at
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return at, r.ended(err)
	}
	size, sum := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	switch {
	case size == 0:
		return at, io.EOF
	case size < fixedBytes || size > MaxRecord:
		return at, r.tear(fmt.Errorf("a record of %d bytes", size))
	}
	padded := int(size+7) &^ 7
	if cap(r.body) < padded {
		r.body = make([]byte, padded)
	}
	b := r.body[:padded]
	if _, err := io.ReadFull(r.in, b); err != nil {
		return at, r.ended(err)
	}
	if crc32.Checksum(b[:size], castagnoli) != sum {
		return at, r.tear(errors.New("a record that does not have its checksum"))
	}
	if err := rec.Decode(b[:size]); err != nil {
		return at, r.tear(err)
	}
	r.at += recordHead + int64(padded)
	return at, nil
}

// ended is the end of the bytes.
func (r *Reader) ended(err error) error {
	if err == io.ErrUnexpectedEOF {
		return r.tear(errors.New("half a record"))
	}
	return err
}

func (r *Reader) tear(err error) error {
	r.torn = fmt.Errorf("%s: at %d there is %w: what follows is not read", r.path, r.at, err)
	return io.EOF
}

// Torn is why the file was not read to its end, nil where it was.
func (r *Reader) Torn() error { return r.torn }

// ReadAt reads the record at a place that Next gave.
func (r *Reader) ReadAt(at int64, rec *Record) error {
	var head [recordHead]byte
	if _, err := r.f.ReadAt(head[:], at); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size < fixedBytes || size > MaxRecord {
		return fmt.Errorf("audit: %s: at %d there is a record of %d bytes now: it was changed while it was read", r.path, at, size)
	}
	if cap(r.body) < int(size) {
		r.body = make([]byte, size)
	}
	b := r.body[:size]
	if _, err := r.f.ReadAt(b, at+recordHead); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return rec.Decode(b)
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}
