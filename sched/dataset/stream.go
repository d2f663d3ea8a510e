package dataset

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"
)

// stream is one open file, decompressed. What it is compressed with is told by
// its first bytes; the name's suffix decides nothing.
type stream struct {
	path  string
	file  *os.File
	raw   *bufio.Reader
	text  io.Reader
	kind  string // "", "gzip", "zstd", "lz4"; "zstd or lz4" where that cannot be told
	close func()
	warn  func(string)
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

// openStream opens a file; warn, which may be nil, hears of bytes that are ignored.
func openStream(path string, warn func(string)) (*stream, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	raw := bufio.NewReaderSize(f, readAheadBytes)
	s := &stream{path: path, file: f, raw: raw, text: raw, close: func() {}, warn: warn}
	if s.kind, err = packingOf(raw); err == nil {
		err = s.unpack()
	}
	if err != nil {
		s.Close()
		return nil, s.failure(err)
	}
	return s, nil
}

// unpack puts the decompressor between the file and the text. A short or empty file is none
// of its business: its rows say what it is.
func (s *stream) unpack() error {
	switch s.kind {
	case "gzip":
		z, err := newGzipMembers(s.raw, s.ignores)
		if err != nil {
			return err
		}
		s.text = z
	case "zstd":
		z, err := zstd.NewReader(s.raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindowMax))
		if err != nil {
			return err
		}
		s.text, s.close = z, z.Close
	case "lz4":
		s.text = &lz4Frames{raw: s.raw}
	}
	return nil
}

// ignores warns that bytes follow the last gzip member, of which the first has been read.
func (s *stream) ignores() {
	if s.warn == nil {
		return
	}
	at, err := s.file.Seek(0, io.SeekCurrent)
	info, statErr := s.file.Stat()
	if err != nil || statErr != nil {
		s.warn(fmt.Sprintf("%s: the bytes that follow its gzip data are ignored, as gzip does", s.path))
		return
	}
	first := at - int64(s.raw.Buffered()) - 1
	s.warn(fmt.Sprintf("%s: %s from byte %d on are no gzip data and are ignored, as gzip does; if rows are missing, write the file again",
		s.path, bytesText(info.Size()-first), first))
}

// failure says what a decompressor's error means for the user.
func (s *stream) failure(err error) error {
	var disk *fs.PathError // of the file itself, not of what is in it
	switch {
	case errors.As(err, &disk):
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
