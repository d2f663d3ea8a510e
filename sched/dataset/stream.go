package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// stream is one open file, decompressed. What it is compressed with is told by
// its first bytes; the name's suffix decides nothing.
type stream struct {
	path  string
	file  *os.File
	text  io.Reader
	kind  string // "", "gzip", "zstd", "lz4"
	close func()
}

const readAheadBytes = 256 << 10

// zstdWindowMax bounds what a frame header can make us allocate.
const zstdWindowMax = 128 << 20

func openFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fileError(path, err, "no such file; was it removed while the job ran?")
	}
	if err != nil {
		return nil, fileError(path, err, "cannot be opened: %v", plain(err))
	}
	return f, nil
}

func openStream(path string) (*stream, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	raw := bufio.NewReaderSize(f, readAheadBytes)
	head, err := raw.Peek(4)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, fileError(path, err, "cannot be read: %v", plain(err))
	}
	s := &stream{path: path, file: f, text: raw, close: func() {}}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		s.kind = "gzip"
		var z *gzip.Reader
		if z, err = gzip.NewReader(raw); err == nil {
			s.text = z
		}
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		s.kind = "zstd"
		var z *zstd.Decoder
		if z, err = zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindowMax)); err == nil {
			s.text, s.close = z, z.Close
		}
	case bytes.Equal(head, []byte{0x04, 0x22, 0x4d, 0x18}):
		s.kind = "lz4"
		s.text = lz4.NewReader(raw) // frame behind frame too
	default:
		err = nil // a short or empty file is judged by its rows
	}
	if err != nil {
		s.Close()
		return nil, s.failure(err)
	}
	return s, nil
}

// failure says what a decompressor's error means for the user.
func (s *stream) failure(err error) error {
	switch {
	case s.kind != "" && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
		return fileError(s.path, err, "the %s data ends too early: the file is truncated; copy or compress it again", s.kind)
	case s.kind != "":
		return fileError(s.path, err, "the %s data is damaged (%v); copy or compress it again", s.kind, err)
	}
	return fileError(s.path, err, "cannot be read: %v", plain(err))
}

// Read returns io.EOF or an *Error, nothing else.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.text.Read(p)
	if err != nil && err != io.EOF {
		err = s.failure(err)
	}
	return n, err
}

func (s *stream) Close() {
	s.close()
	s.file.Close()
}
